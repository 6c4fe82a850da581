"""Shared by proof tools, tests and benchmarks: processes, ports, waits, a plain client, settings, command lines."""
