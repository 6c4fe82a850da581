"""The programs that look for faults: simulation, attack on real processes, soak, fuzzing, comparison with RocketMQ."""
