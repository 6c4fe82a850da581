"""Who is let in at a broker: the gate of its settings, and the ACL files of RocketMQ 4."""
