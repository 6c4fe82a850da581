"""Authorization in a broker: installs the configured authorizer, and reloads the ACL files of RocketMQ 4."""
