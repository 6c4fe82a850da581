"""Replication between a master and its slaves: bytes in, bytes and decisions out; no socket, file or clock."""
