"""Access control of a broker: users, policies and the check of each request. No sockets, files or clock."""
