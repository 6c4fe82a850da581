"""Producers, and the send path from a message to its broker."""
