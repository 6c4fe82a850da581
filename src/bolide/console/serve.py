"""The process of `bolide console`: checks its address and TLS files, serves pages, and handles signals."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.logging import DefaultFormatter

from bolide.bodies.registry import RegistryAddress
from bolide.console.app import LOOPBACK_NAMES, Console, ConsoleOptions
from bolide.console.certificate import console_certificate, earliest_end, keep_current
from bolide.console.connections import SecuredConnection, YieldingConnection
from bolide.console.roles import AccessControl
from bolide.console.topic_schemas import TopicSchemas
from bolide.errors import BolideError, ConfigError
from bolide.transport.tls_contexts import RenewedContext
from bolide.transport.trusted_proxies import TrustedProxies
from bolide.world.lines import LinesHandler, lines_to
from bolide.world.open_files import raise_limit

GRACE_S: Final = 3
"""Seconds that running requests get to finish at shutdown."""
MOST_CONNECTIONS: Final = 4096
"""Number of connections or running requests from which uvicorn responds with 503. It exceeds the number that one turn
of the loop accepts, because the requests of closed connections end in the next turn."""
BACKLOG: Final = 256
"""Maximum number of connections that one turn of the loop accepts before it closes any, and that the kernel queues."""
ENDED_BY: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Listening:
    """Options of the process. Port 0 selects a free port. `certificate` and `key` are PEM files and enable TLS.
    `without_login` allows access from other hosts although the cluster has no users. `schemas` is a folder of files
    TOPIC.avsc and TOPIC.desc. Other bodies use the schema `registry`. `trusted_proxies` may send X-Forwarded-For."""

    host: str
    port: int
    namesrv: str
    certificate: str | None = None
    key: str | None = None
    without_login: bool = False
    schemas: Path | None = None
    registry: RegistryAddress | None = None
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)

    @property
    def on_loopback(self) -> bool:
        """Whether only this host can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Server(uvicorn.Server):
    """Prints its address once it serves, and treats SIGINT and SIGTERM as requests to stop."""

    def __init__(
        self, config: uvicorn.Config, address: str, say: Callable[[str], None], tls: RenewedContext | None = None
    ) -> None:
        """Calls `say` with the address to print once the server accepts connections. Keeps `tls` current."""
        super().__init__(config)
        self._address = address
        self._say = say
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, then print the address."""
        await super().startup(sockets)
        if self.started:
            self._say(self._address)

    async def main_loop(self) -> None:
        """Serve until a signal."""
        if self._tls is None:
            await super().main_loop()
            return
        renewal = asyncio.create_task(keep_current(self._tls))
        try:
            await super().main_loop()
        finally:
            renewal.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at either signal, and do not raise it again afterwards: the exit status is 0."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        for number in ENDED_BY:
            loop.add_signal_handler(number, end)
        try:
            yield
        finally:
            for number in ENDED_BY:
                loop.remove_signal_handler(number)


def run_console(listening: Listening) -> int:
    """Serve until a signal, then return 0. Raises `ConfigError` if the address is unsafe or cannot be used, or if the
    certificate or a schema is invalid."""
    _log_in_thread()
    schemas = TopicSchemas.read(listening.schemas, listening.registry)
    asyncio.run(_checked(listening))
    tls = console_certificate(listening.certificate, listening.key) if listening.certificate and listening.key else None
    names = LOOPBACK_NAMES if listening.on_loopback else None
    options = ConsoleOptions(listening.namesrv, names, schemas, partial(earliest_end, tls), listening.trusted_proxies)
    connection: Any = YieldingConnection if tls is None else partial(SecuredConnection, tls)
    raise_limit()
    config = uvicorn.Config(
        Console(options).app(),
        http=connection,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # `forwarded` reads them
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
    )
    with bound(listening) as bound_socket, lines_to(sys.stdout) as say:
        asyncio.run(Server(config, address_of(listening, bound_socket), say, tls).serve(sockets=[bound_socket]))
    return 0


def _log_in_thread() -> None:
    """Log in uvicorn's format. A thread writes the lines."""
    root = logging.getLogger()
    if not root.handlers and sys.stderr is not None:
        handler = LinesHandler(sys.stderr)
        handler.setFormatter(DefaultFormatter("%(levelprefix)s %(message)s"))
        root.addHandler(handler)


async def _checked(listening: Listening) -> None:
    """Raise `ConfigError` if other hosts could use the console without a login."""
    if bool(listening.certificate) != bool(listening.key):
        raise ConfigError("--certificate and --key require each other: give both")
    if listening.on_loopback or listening.without_login:
        return
    access = AccessControl(listening.namesrv, asyncio.get_running_loop().time)
    await access.start()
    try:
        wanted = await access.wanted()
    except BolideError as error:
        raise ConfigError(
            f"--listen {listening.host} is reachable from other hosts, and no broker reports whether the cluster has "
            f"users: {error}"
        ) from None
    finally:
        await access.close()
    if not wanted:
        raise ConfigError(
            f"--listen {listening.host} is reachable from other hosts, and the cluster has no users to log in: set "
            "authenticationEnabled at its brokers, or give --without-login"
        )


@contextmanager
def bound(listening: Listening) -> Iterator[socket.socket]:
    """Bind the port. Raises `ConfigError` if that fails."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    with socket.socket(family) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((listening.host, listening.port))
        except OSError as error:
            raise ConfigError(
                f"--listen {listening.host}:{listening.port} cannot be used: {error.strerror or error}"
            ) from None
        yield made


def address_of(listening: Listening, made: socket.socket) -> str:
    """Return the URL for a browser."""
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return f"{'https' if listening.certificate else 'http'}://{host}:{made.getsockname()[1]}/"
