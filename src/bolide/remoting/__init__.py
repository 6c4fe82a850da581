"""The remoting protocol: bytes in, commands out, and back; no sockets."""
