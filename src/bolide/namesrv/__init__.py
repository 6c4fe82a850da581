"""The name server: live brokers, topic routes and key-value configuration. Services without sockets."""
