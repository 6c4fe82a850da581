"""The name server: who lives, which broker has which queues, and a little configuration; services without sockets."""
