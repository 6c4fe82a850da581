"""Who may do what on a broker: users, policies and the check of each request. Without sockets, files or a clock."""
