"""The world around a node or a client: clocks, random numbers, threads, sockets and small files, in one object."""
