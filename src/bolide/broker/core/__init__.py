"""What every service of a broker builds on: outcomes, effects, channels, options, RocketMQ's fixed names, counters."""
