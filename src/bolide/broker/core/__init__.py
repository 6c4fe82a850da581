"""Base of all services of a broker: outcomes, effects, channels, options, RocketMQ's fixed names, counters."""
