"""Data sources and jobs for Spark."""
