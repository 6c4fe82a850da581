"""The start of a store: loads, checks and recovers its files before the first write."""
