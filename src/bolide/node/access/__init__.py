"""Access to a broker: the gate that the settings ask for, and the ACL files of RocketMQ 4."""
