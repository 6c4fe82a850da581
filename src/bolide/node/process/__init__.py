"""The life of a server process: signals, exit codes and memory."""
