"""Bolide's own version: the one plain place that the build, the command line and the wheel read it from.

Semantic versions; a change of file format or wire is breaking, whatever the API says.
"""

VERSION = "0.1.0"
