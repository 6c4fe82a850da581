"""Formats of all files that RocketMQ stores. Uses no I/O and no clock."""
