"""Explores a whole set: the decisions of controller and brokers, and the bytes that they exchange."""
