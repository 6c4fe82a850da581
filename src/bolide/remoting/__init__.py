"""The remoting protocol: converts bytes to commands and commands to bytes, without sockets."""
