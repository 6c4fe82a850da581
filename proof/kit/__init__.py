"""What proof tools, tests and benchmarks share: processes, ports, waiting, a plain client, settings, command lines."""
