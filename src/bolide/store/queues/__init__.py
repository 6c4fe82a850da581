"""Consume queues: the units of each queue, their numbers, and the topics that were deleted."""
