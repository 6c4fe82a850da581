"""The store source: rows from the files of a broker that need not run."""
