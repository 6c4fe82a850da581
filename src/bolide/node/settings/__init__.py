"""Sources of settings: command line, broker.conf, and changes at run time."""
