"""The services of a broker, one file a noun; they take the time as an argument and know no sockets."""
