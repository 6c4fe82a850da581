"""Flags for the JVMs of the suite, which live for seconds."""

UNVERIFIED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Classes are not verified, a sixth of what a start of Spark costs: which jars they come from is fixed."""
