"""Rounds, results, and how they are shown: tables, pages and drawings."""
