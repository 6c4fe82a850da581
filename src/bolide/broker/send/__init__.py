"""The path of a message from its producer to the log: single messages, batches, returned messages and replies."""
