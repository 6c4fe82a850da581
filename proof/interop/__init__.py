"""RocketMQ's own programs, and what runs them beside ours."""
