"""The log of a daemon: its lines, its levels, and the file it is kept in."""
