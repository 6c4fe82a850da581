"""The message store: commit log, its derived files, recovery, retention."""
