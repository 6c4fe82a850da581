"""Measures the cost of the sources and jobs."""
