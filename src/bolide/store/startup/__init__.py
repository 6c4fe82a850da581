"""The start of a store: load, check and recover its files before the first write."""
