"""The store source: rows from the files of a broker, running or not."""
