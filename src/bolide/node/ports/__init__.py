"""The ports of a daemon: addresses, connections, and the TLS contexts they use."""
