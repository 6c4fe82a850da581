"""Every stored byte of RocketMQ's files, as rules without I/O or clock."""
