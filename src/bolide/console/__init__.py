"""Metrics, health and the web console."""
