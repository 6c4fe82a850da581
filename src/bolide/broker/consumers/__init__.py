"""What members of a consumer group ask for: heartbeats, queue assignment, locks, offsets."""
