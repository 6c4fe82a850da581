"""The path of a message from the log to its consumer, and held pulls."""
