"""The index, which finds records by key."""
