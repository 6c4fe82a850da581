"""The real host as a `World`: clocks, random numbers, threads, TCP sockets and files."""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeVar

from bolide.world.clocks import now_ms
from bolide.world.connecting import connected
from bolide.world.contract import BoundPort, SmallFiles, Worker

T = TypeVar("T")
P = TypeVar("P")
BACKLOG: Final = 1024
_NOT_HERE: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""Errors for an address or an address family that this host does not have."""
_NO_ROUTE_ADDRESS: Final = "203.0.113.1"
"""A documentation address (RFC 5737). Connecting a UDP socket to it sends no packet, but selects the local address."""


class RealWorker:
    """A daemon thread and its queue of jobs."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def give(self, job: Callable[[], object]) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def stop(self, patience: float | None = None) -> bool:
        """Finish all jobs and stop. Return False if that takes more than `patience` seconds."""
        self._jobs.put(None)
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class RealPort:
    """The listening sockets of one port, one per address of the host name."""

    def __init__(self, host: str, port: int) -> None:
        self._servers: list[asyncio.Server] = []
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self._sockets: list[socket.socket] = bound_sockets(places)

    @property
    def port(self) -> int:
        """Port number."""
        return int(self._sockets[0].getsockname()[1])

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections. Raises `OSError` if another socket has started to listen on the port."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            self._servers.append(await loop.create_server(accepted, sock=one, backlog=BACKLOG))

    def close(self) -> None:
        """Stop accepting connections."""
        for server in self._servers:
            server.close()
        for one in self._sockets[len(self._servers) :]:
            one.close()
        self._sockets.clear()
        self._servers.clear()


def bound_sockets(places: list[Any]) -> list[socket.socket]:
    """Return sockets bound to these addresses, as returned by `socket.getaddrinfo`.

    Omits addresses that this host does not have, as asyncio does: a name often resolves to an IPv6 address on a host
    without IPv6. Raises `OSError` and closes all sockets if an address is in use, or if this host has none of them.
    """
    made: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(places):
            try:
                made.append(_bound(family, kind, protocol, address))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = missing or error
        if missing is not None and not made:
            raise missing
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _bound(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    """Return a socket bound with asyncio's options. Raises `OSError`."""
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class RealSmallFiles:
    """Small files through Python's standard library, portable to every platform of the clients."""

    def read_file(self, path: str) -> bytes | None:
        """Return the content, or None if the file does not exist."""
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the file and sync it. `path`.bak then has the old content."""
        fresh = path + ".tmp"
        with open(fresh, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A crash here leaves the old content. After a crash behind the first rename, readers use the .bak file.
        if os.path.exists(path):
            os.replace(path, path + ".bak")
        os.replace(fresh, path)

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents."""
        os.makedirs(path, exist_ok=True)


class RealWorld:
    """The real host."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self._small_files = RealSmallFiles()

    @property
    def random(self) -> random.Random:
        """Random number generator of the operating system."""
        return self._random

    @property
    def files(self) -> SmallFiles:
        """The host's files."""
        return self._small_files

    # Static, so that a lookup returns the function itself and no bound method: every message reads the time.
    wall_ns = staticmethod(time.time_ns)
    wall_ms = staticmethod(now_ms)
    monotonic = staticmethod(time.monotonic)
    process_id = staticmethod(os.getpid)

    def own_ip(self) -> str:
        """Return the address of the interface used to reach other hosts, or 127.0.0.1 if there is none. Sends no
        packet."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((_NO_ROUTE_ADDRESS, 9))
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"

    def resolve(self, host: str) -> str:
        """Return the first address from the host's resolver."""
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])

    def bind(self, host: str, port: int) -> BoundPort:
        """Bind a TCP port of this host."""
        return RealPort(host, port)

    async def connect(self, make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
        """Connect with TCP, or with TLS if a context is given."""
        made: Any = make  # asyncio's stubs require an asyncio protocol
        loop = asyncio.get_running_loop()
        if _is_address(host):
            _, protocol = await loop.create_connection(made, host, port, ssl=tls)
        else:
            sock = await connected(host, port)
            try:
                name = host if tls is not None else None
                _, protocol = await loop.create_connection(made, sock=sock, ssl=tls, server_hostname=name)
            except BaseException:
                sock.close()
                raise
        found: P = protocol
        return found

    def pool(self, threads: int, name: str) -> Executor:
        """Return a thread pool."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name)

    def worker(self, name: str) -> Worker:
        """Return a daemon thread that runs jobs."""
        return RealWorker(name)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function with `asyncio.to_thread`."""
        return await asyncio.to_thread(work, *arguments)


THE_WORLD: Final = RealWorld()
"""Default environment of clients. Stateless, so clients can share it."""
