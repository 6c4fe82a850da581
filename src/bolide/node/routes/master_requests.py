"""Requests of a slave to its master, and paged reads of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from bolide.access.users import Credentials, signed
from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.bodies.topics import DELETED_TOPICS, GUESSED_TOPICS
from bolide.remoting.command import Command, make_request
from bolide.remoting.json import parse_long
from bolide.transport.client import ClientConnection
from bolide.transport.tls_contexts import RenewedContext, current_context
from bolide.world.contract import World

TIMEOUT_S: Final = 5.0
PAGES_S: Final = 60.0
PAGE_ROWS: Final = 2000
VERSION: Final = ("counter", "stateVersion", "timestamp")


class Paged(Struct, frozen=True):
    """A table that is read in pages. `place`, `most`, `total`: header fields for the first row, the page size and the
    size of the table. `rows`: field of the body with the rows."""

    code: int
    place: str
    most: str
    total: str
    rows: str
    beside: tuple[str, ...]
    """Members with entries by topic or group that some masters return in addition to the rows."""


FORBIDDEN: Final = "forbiddenTable"
TOPICS: Final = Paged(
    codes.GET_ALL_TOPIC_CONFIG,
    "topicSeq",
    "maxTopicNum",
    "totalTopicNum",
    "topicConfigTable",
    (DELETED_TOPICS, GUESSED_TOPICS),
)
GROUPS: Final = Paged(
    codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    "groupSeq",
    "maxGroupNum",
    "totalGroupNum",
    "subscriptionGroupTable",
    (FORBIDDEN,),
)


class NotTold(BolideError):
    """The master did not return a valid response."""


class MasterRequests:
    """Connections to the current master."""

    def __init__(self, tls: RenewedContext | None, world: World, credentials: Credentials | None = None) -> None:
        self._tls = tls
        self._world = world
        self.credentials = credentials
        """Credentials for signing requests."""
        self._master = ""
        self._connections: dict[str, ClientConnection] = {}
        self._unknown: set[int] = set()
        """Request codes that this master does not support."""

    def master_is(self, address: str) -> None:
        """Send requests to this address. Connections to the previous master stay open until `close`."""
        self._master = address
        self._unknown.clear()

    async def close(self) -> None:
        """Close every connection, and wait until it is closed."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()
            await connection.wait_closed()

    async def paged(self, table: Paged, own: Mapping[str, int]) -> dict[str, Any] | None:
        """Return the whole table, in one version, or None if the local version `own` is current. Raises `NotTold`."""
        deadline = self._world.monotonic() + PAGES_S
        whole: dict[str, Any] = {}
        rows: dict[str, Any] = {}
        asked = ""
        while self._world.monotonic() < deadline:
            ext = {table.place: str(len(rows)), table.most: str(PAGE_ROWS), "dataVersion": asked}
            if table is TOPICS:
                ext[DELETED_TOPICS] = "true"  # returned only on request, because RocketMQ's brokers do not support it
            answer = await self.ask(table.code, ext)
            told = await self.parsed(answer.body)
            version = {key: int((told.get("dataVersion") or {}).get(key) or 0) for key in VERSION}
            if rows and version != whole["dataVersion"]:
                whole, rows, asked = {}, {}, ""  # the table changed between two pages
                continue
            if not rows and version == own:
                return None
            page = told.get(table.rows) or {}
            rows.update(page)
            for beside in table.beside:
                if beside in told:
                    whole.setdefault(beside, {}).update(told[beside] or {})
            whole["dataVersion"] = version
            asked = json.dumps(version)
            total = answer.ext().get(table.total)
            if total is None or len(rows) >= int(total):
                return {**whole, table.rows: rows}
            if not page:
                raise NotTold(f"request {table.code} ended after {len(rows)} of {total} rows")
        raise NotTold(f"request {table.code} was not over after {PAGES_S:.0f} s")

    async def parsed(self, body: bytes) -> dict[str, Any]:
        """Parse a JSON body in a thread if it is long. Raises `NotTold` if it is not an object."""
        found: Any = await self._world.in_thread(partial(parse_long, body))
        if not isinstance(found, dict):
            raise NotTold("a response contains no JSON object")
        return found

    async def ask_5x(self, code: int) -> Command | None:
        """Return the response, or None if the master does not support this code (4.9) or its timer is disabled."""
        if code in self._unknown:
            return None
        answer = await self._answer(code, {})
        if answer.code == codes.REQUEST_CODE_NOT_SUPPORTED:
            self._unknown.add(code)
        if answer.code in (codes.REQUEST_CODE_NOT_SUPPORTED, codes.SYSTEM_ERROR):
            return None
        return self._good(code, answer)

    async def ask(self, code: int, ext: dict[str, str]) -> Command:
        """Return a successful response. Raises `NotTold` for a failed one, `BolideError` or `OSError` without one."""
        return self._good(code, await self._answer(code, ext))

    def _good(self, code: int, answer: Command) -> Command:
        if answer.code != codes.SUCCESS:
            raise NotTold(f"request {code} failed with {codes.response_name(answer.code)}: {answer.remark}")
        return answer

    async def _answer(self, code: int, ext: dict[str, str]) -> Command:
        # Java's slaves send some of these codes to the fast port. Another server may listen at that port, and a broker
        # of another set would return its own topics.
        connection = await self._connected(self._master)
        return await connection.request(signed(make_request(code, 0, ext), self.credentials), TIMEOUT_S)

    async def _connected(self, address: str) -> ClientConnection:
        known = self._connections.get(address)
        if known is None or known.closed:
            known = await ClientConnection.connect(address, ssl=current_context(self._tls), world=self._world)
            self._connections[address] = known
        return known
