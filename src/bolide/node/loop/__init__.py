"""The event loop of a node: turns, the executor, pending replies, and held pulls that run again."""
