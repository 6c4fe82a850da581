"""The trip of a message from the log to its consumer, and pulls that wait for one."""
