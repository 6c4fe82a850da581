"""The log of a server: format of lines, levels, and the log file."""
