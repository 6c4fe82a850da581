"""Connects to a host name with several addresses, some of which may drop every packet.

The addresses are tried in order, and the first connection is used (RFC 8305). Each attempt starts `STAGGER_S` after the
previous one, or as soon as an earlier one fails. asyncio supports this; uvloop does not.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, TypeAlias

STAGGER_S: Final = 0.25
"""Seconds before the next address is also tried, as RFC 8305 recommends."""

Place: TypeAlias = tuple[int, int, int, Any]
"""Family, type, protocol and address of a socket."""


async def connected(host: str, port: int) -> socket.socket:
    """Return a connected non-blocking socket. Raises the first address's `OSError` if no address is reachable."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await first_connected(
        list(dict.fromkeys((family, kind, protocol, place) for family, kind, protocol, _, place in found))
    )


async def first_connected(places: list[Place], stagger: float = STAGGER_S) -> socket.socket:
    """Return the first socket that connects, and close the others. Closes all sockets if cancelled.

    Raises the first address's `OSError` if no address is reachable.
    """
    left = list(places)
    tries: list[asyncio.Task[socket.socket]] = []
    taken: socket.socket | None = None
    try:
        while taken is None and (left or any(not each.done() for each in tries)):
            if left:
                tries.append(asyncio.ensure_future(_connect(left.pop(0))))
            waiting = [each for each in tries if not each.done()]
            ended, _ = await asyncio.wait(
                waiting, timeout=stagger if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for each in ended:
                if each.exception() is None and taken is None:
                    taken = each.result()
    finally:
        for each in tries:
            each.cancel()
        for result in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(result, socket.socket) and result is not taken:
                result.close()
    if taken is None:
        raise (tries[0].exception() if tries else None) or OSError("the name has no address")
    return taken


async def _connect(place: Place) -> socket.socket:
    family, kind, protocol, address = place
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
