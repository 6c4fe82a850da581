"""The event loop of a node and its parts: turns, the executor, replies that wait, held pulls that run again."""
