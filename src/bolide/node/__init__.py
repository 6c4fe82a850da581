"""The running process: configuration, executor of outcomes, timers, supervision."""
