"""Reserves ports for servers that cannot choose one.

Start a server of Bolide with port 0: it reports its port in its ready line. Reserve a port for RocketMQ's Java servers,
for a server that restarts at its address, and for one that also listens at neighbouring ports.

The ports from 15000 to 32000 are divided into blocks. The kernel uses higher ports for outgoing connections. A process
owns a block while it keeps the block's first port bound. No other process on this machine, in this test run or in
another, reserves ports of that block.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from typing import Final

_FIRST: Final = 15_000
_LAST: Final = 32_000
_BLOCK: Final = 50


class _Ports:
    """Blocks of this process, and the ports that it has not given away yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held: list[int] = []
        """Descriptors of the sockets that keep the blocks."""
        self._rest: list[int] = []

    def reserve(self, distances: tuple[int, ...]) -> int:
        """Give away one port and its neighbours. Raises OSError if no block is left."""
        with self._lock:
            while True:
                for port in self._rest:
                    wanted = {port, *(port + distance for distance in distances)}
                    if wanted.issubset(self._rest) and all(map(_is_free, wanted)):
                        self._rest = [other for other in self._rest if other not in wanted]
                        return port
                self._rest += self._take_block(distances)

    def _take_block(self, distances: tuple[int, ...]) -> range:
        for first in random.sample(range(_FIRST, _LAST, _BLOCK), (_LAST - _FIRST) // _BLOCK):
            try:
                self.held.append(_bound(first).detach())  # open until this process ends
            except OSError:
                continue  # another process owns the block
            return range(first + 1, first + _BLOCK)
        raise OSError(f"no ports from {_FIRST} to {_LAST} are left for a port with its neighbours {distances}")


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.bind(("127.0.0.1", port))  # without SO_REUSEADDR, which would let two processes bind it
    except OSError:
        made.close()
        raise
    return made


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


_ports = _Ports()


def _start_afresh() -> None:
    global _ports
    _ports = _Ports()


os.register_at_fork(after_in_child=_start_afresh)  # a fork and its parent must not give away the same ports


def held_descriptors() -> frozenset[int]:
    """Return the descriptors that this process keeps open to own its blocks."""
    return frozenset(_ports.held)


def reserve_port(*distances: int) -> int:
    """Return a port of 127.0.0.1 that no process on this machine reserves again until this process ends.

    The ports at the given distances from it are reserved, too. Raises OSError if no port is left.
    """
    return _ports.reserve(distances)
