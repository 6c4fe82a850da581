"""Consume queues: the units of each queue, their queue offsets, and the deleted topics."""
