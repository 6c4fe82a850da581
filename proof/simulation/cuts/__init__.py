"""Power cuts at random calls of a broker's disk, and what must be true after each recovery."""
