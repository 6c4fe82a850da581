"""The life of a server process: signals, exit codes, addresses, open files, TLS files that are renewed."""
