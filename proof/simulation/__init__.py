"""Deterministic simulation: name servers, brokers and clients in one thread, from one seed."""
