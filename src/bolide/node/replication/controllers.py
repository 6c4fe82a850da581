"""Connections to the controllers of a broker: finds the leader, sends requests to it and heartbeats to all."""

from __future__ import annotations

import asyncio
from typing import Final

from bolide.access.users import Credentials, signed
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.controller import GetMetaDataResponseHeader
from bolide.remoting.headers.decode import decode_header
from bolide.transport.client import ClientConnection
from bolide.transport.tls_contexts import RenewedContext, current_context
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

TIMEOUT_S: Final = 3.0


class NoController(BolideError):
    """No controller is reachable, or none is the leader."""

    retriable = True


class Controllers:
    """One connection per controller. An unreadable response is treated like a missing one."""

    def __init__(
        self, addresses: tuple[str, ...], world: World, tls: RenewedContext | None, credentials: Credentials | None
    ) -> None:
        self._addresses = addresses
        self._world = world
        self._tls = tls
        self._credentials = credentials
        self._leader = ""
        self._first = 0
        """Index of the controller to query first for the leader. Advances past a controller that named a wrong
        leader."""
        self._connections: dict[str, ClientConnection] = {}
        self._connecting: dict[str, asyncio.Task[ClientConnection]] = {}

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """Return the response of the lead controller. Raises `NoController` if there is no leader, and connection
        errors."""
        if not self._leader:
            await self.find()
        try:
            answer = await self._asked(self._leader, code, ext, body)
        except BolideError:
            self._doubt()
            raise
        if answer.code == codes.CONTROLLER_NOT_LEADER:
            leader = self._leader
            self._doubt()
            raise NoController(f"the controller {leader} is no longer the leader")
        return answer

    async def find(self) -> None:
        """Query the controllers for the leader. Raises `NoController`."""
        problems: list[str] = []
        first = self._first % len(self._addresses)
        for address in (*self._addresses[first:], *self._addresses[:first]):
            try:
                answer = await self._asked(address, codes.CONTROLLER_GET_METADATA_INFO, {}, b"")
                told = decode_header(answer, GetMetaDataResponseHeader)
            except BolideError as error:
                problems.append(str(error))
                continue
            if answer.code == codes.SUCCESS and told.controller_leader_address:
                self._leader = told.controller_leader_address
                return
            problems.append(f"{address} knows of no controller that leads")
        self._leader = ""
        raise NoController(f"no controller leads: {'; '.join(problems)}")

    def _doubt(self) -> None:
        """Drop a leader that turned out to be wrong. A partitioned controller would name it again, so the next query
        starts at another controller."""
        self._leader = ""
        self._first += 1

    def beat(self, ext: dict[str, str]) -> None:
        """Send a heartbeat to each connected controller. Connects to the others, which receive the next heartbeat."""
        for address in dict.fromkeys((*self._addresses, self._leader)):
            known = self._connections.get(address)
            if known is not None and not known.closed and known.writable:
                known.oneway(signed(make_request(codes.BROKER_HEARTBEAT, 0, ext, oneway=True), self._credentials))
            elif address and address not in self._connecting and (known is None or known.closed):
                self._connect(address)

    def fall_silent(self) -> None:
        """Close the heartbeat connections, so that each controller immediately considers this broker dead."""
        for connection in self._connections.values():
            connection.close()

    async def stop(self) -> None:
        """Close every connection."""
        await end_tasks(self._connecting.values())
        for connection in self._connections.values():
            connection.close()
            await connection.wait_closed()
        self._connections.clear()

    async def _asked(self, address: str, code: int, ext: dict[str, str], body: bytes) -> Command:
        known = self._connections.get(address)
        if known is None or known.closed:
            known = await asyncio.shield(self._connecting.get(address) or self._connect(address))
        return await known.request(signed(make_request(code, 0, ext, body), self._credentials), TIMEOUT_S)

    def _connect(self, address: str) -> asyncio.Task[ClientConnection]:
        connecting = asyncio.create_task(
            ClientConnection.connect(address, TIMEOUT_S, ssl=current_context(self._tls), world=self._world)
        )
        self._connecting[address] = connecting
        connecting.add_done_callback(lambda done: self._connected(address, done))
        return connecting

    def _connected(self, address: str, done: asyncio.Task[ClientConnection]) -> None:
        self._connecting.pop(address, None)
        if not done.cancelled() and done.exception() is None:
            self._connections[address] = done.result()
