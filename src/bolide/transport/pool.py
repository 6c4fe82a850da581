"""Connections by address: opened at their first use, shared by all callers, dropped when they close."""

from __future__ import annotations

import asyncio
import ssl as ssl_module
from collections.abc import Awaitable, Callable

from bolide.errors import ConnectionLost
from bolide.transport.client import CONNECT_TIMEOUT, ClientConnection, OnRequest
from bolide.transport.tls_contexts import RenewedContext
from bolide.world.contract import World
from bolide.world.real import THE_WORLD
from bolide.world.tasks import end_tasks


class ConnectionPool:
    """At most one live connection per address; concurrent callers wait for the same attempt."""

    def __init__(
        self,
        on_request: OnRequest | None = None,
        ssl: ssl_module.SSLContext | RenewedContext | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
        greet: Callable[[ClientConnection], Awaitable[None]] | None = None,
        world: World = THE_WORLD,
    ) -> None:
        """Each new connection is passed to `greet` before any other use."""
        self._on_request = on_request
        self._ssl = ssl
        self._connect_timeout = connect_timeout
        self._greet = greet
        self._world = world
        self._live: dict[str, ClientConnection] = {}
        self._pending: dict[str, asyncio.Task[ClientConnection]] = {}
        self._closed = False

    def live(self, address: str) -> ClientConnection | None:
        """Return the open connection to `address`, or None. Never waits."""
        connection = self._live.get(address)
        return connection if connection is not None and not connection.closed else None

    def addresses(self) -> list[str]:
        """Return the addresses with an open connection."""
        return [address for address, connection in self._live.items() if not connection.closed]

    async def get(self, address: str) -> ClientConnection:
        """Return the connection to `address`; connect if it does not exist. Raises `ConnectionLost`."""
        connection = self.live(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ConnectionLost(f"the pool of connections is closed; no request goes to {address}")
        task = self._pending.get(address)
        if task is None:
            task = asyncio.create_task(self._connect(address), name=f"bolide connect {address}")
            self._pending[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        # Shielded: a caller that stops waiting must not cancel the attempt for the others.
        return await asyncio.shield(task)

    async def _connect(self, address: str) -> ClientConnection:
        context = self._ssl.context if isinstance(self._ssl, RenewedContext) else self._ssl
        connection = await ClientConnection.connect(
            address, self._connect_timeout, on_request=self._on_request, ssl=context, world=self._world
        )
        if self._greet is not None:
            try:
                await self._greet(connection)
            except BaseException:  # after any error the unused connection must be closed
                connection.close()
                raise
        return connection

    def _connected(self, address: str, task: asyncio.Task[ClientConnection]) -> None:
        self._pending.pop(address, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._live[address] = task.result()

    def drop(self, address: str) -> None:
        """Close the connection to `address`, if there is one; the next `get` makes another."""
        connection = self._live.pop(address, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close all connections and wait until their sockets are closed."""
        self._closed = True
        await end_tasks(self._pending.values())
        live, self._live = list(self._live.values()), {}
        for connection in live:
            connection.close()
        for connection in live:
            await connection.wait_closed()
