"""Reading, checking and repairing the folder of a broker that does not run."""
