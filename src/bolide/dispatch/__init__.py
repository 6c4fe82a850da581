"""Data derived from one stored message: queue units, index entries, filter bits."""
