"""Loads and runs the plug-ins of a node."""
