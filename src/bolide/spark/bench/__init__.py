"""Measuring what the sources and jobs take."""
