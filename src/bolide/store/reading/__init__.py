"""Reads: pulls, single records, queue offsets, times, keys."""
