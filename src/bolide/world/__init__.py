"""The environment of a node or a client: clocks, random numbers, threads, sockets and small files, in one object."""
