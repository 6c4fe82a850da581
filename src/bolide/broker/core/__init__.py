"""Base of all services of a broker: outcomes, effects, channels, RocketMQ's fixed names, counters."""
