"""The message store: commit log, what is derived from it, recovery, retention."""
