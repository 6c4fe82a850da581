"""The services of a broker, one file per subject. They receive the time as an argument and use no sockets."""
