"""Reads, checks and repairs the store of a broker that is not running."""
