"""Rebuilds consume queues and index files from the commit log."""
