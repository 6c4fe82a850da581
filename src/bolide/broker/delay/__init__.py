"""Delayed messages: delay levels, the timer, and recalls."""
