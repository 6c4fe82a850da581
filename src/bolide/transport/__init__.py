"""Sockets: fronts that carry the bytes of a remoting connection."""
