"""Producers, and the way of a message to its broker."""
