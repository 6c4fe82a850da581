"""The path of a message from its producer to the log: single, batch, sent back, and as a reply."""
