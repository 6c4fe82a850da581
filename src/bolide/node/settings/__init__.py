"""Where settings come from: command line, broker.conf, and changes while the node runs."""
