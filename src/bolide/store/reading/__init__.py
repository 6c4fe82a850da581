"""What can be asked of a store: pulls, single records, queue offsets, times, keys."""
