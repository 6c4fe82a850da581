"""Requests of consumer group members: heartbeats, queue assignment, locks, offsets."""
