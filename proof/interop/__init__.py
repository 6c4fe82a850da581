"""RocketMQ's programs: jars, servers, clients, its integration tests, and the matrix of compatibility."""
