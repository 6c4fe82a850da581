"""Replication of the log: joins the sessions of `bolide.replication` to the store, the sockets and the turns."""
