"""What operators ask of a broker: its state, its topics and groups, and messages by id, key or time."""
