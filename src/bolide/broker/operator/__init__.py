"""Requests of operators: state of a broker, topics and groups, and messages by id, key or time."""
