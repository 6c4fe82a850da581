"""Fuzzing: every decoder and every port is given bytes that nobody meant, and must take them as its docstring says."""
