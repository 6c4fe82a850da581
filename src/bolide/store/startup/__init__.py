"""Recovery: what a start reads, checks and repairs before the store takes a write."""
