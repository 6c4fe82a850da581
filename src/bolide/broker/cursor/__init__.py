"""Background readers of queues, their progress, and the data they load."""
