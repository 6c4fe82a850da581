"""Sends requests to other brokers of a set, such as the query for a master's replication address."""

from __future__ import annotations

from typing import Final

from bolide.access.users import Credentials, signed
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.replication import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from bolide.transport.client import ClientConnection
from bolide.transport.tls_contexts import RenewedContext, current_context
from bolide.world.contract import World

TIMEOUT_S: Final = 3.0


class Asker:
    """Sends each request over a new connection, signed if the broker has inner credentials."""

    def __init__(self, world: World, tls: RenewedContext | None, credentials: Credentials | None) -> None:
        self._world = world
        self._tls = tls
        self._credentials = credentials

    async def ask(self, address: str, code: int, ext: dict[str, str], timeout_s: float) -> Command:
        """Return the response, whatever its code. Raises `BolideError` or `OSError` if no response arrives in time."""
        connection = await ClientConnection.connect(
            address, timeout_s, ssl=current_context(self._tls), world=self._world
        )
        try:
            return await connection.request(signed(make_request(code, 0, ext), self._credentials), timeout_s)
        finally:
            connection.close()
            await connection.wait_closed()

    async def log_address(self, master: str) -> str:
        """Return the address at which the broker at `master` serves its log, or "" if it does not respond."""
        try:
            answer = await self.ask(
                master, codes.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext(), TIMEOUT_S
            )
            if answer.code != codes.SUCCESS:
                return ""
            return decode_header(answer, ExchangeHAInfoResponseHeader).master_ha_address or ""
        except (BolideError, OSError):
            return ""
