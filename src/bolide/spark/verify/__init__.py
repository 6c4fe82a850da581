"""Compares consume queues and index files with the commit log."""
