"""One rebuild of a store, and how its end and its files are checked."""
