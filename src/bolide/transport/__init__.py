"""Sockets: front ends that carry the bytes of a remoting connection."""
