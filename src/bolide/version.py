"""Bolide's version: the build, the command line and the wheel all read it from here.

Semantic versions; a change of file format or wire protocol is breaking, even if the API is the same.
"""

VERSION = "0.1.0"
