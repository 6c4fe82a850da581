"""What a controller asks of etcd (3.4 and newer), by its JSON gateway: ranges, transactions, leases.

The gateway needs one POST for each question, which `http_exchange` makes through the `World`. Python's clients of etcd
bring gRPC with threads and sockets of its own, which no simulation can hold.
"""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from bolide.controller.consensus import StoreUnavailable
from bolide.node.controller.http_exchange import Endpoint, ExchangeFailed, post
from bolide.world.contract import World

PAGE: Final = 500
T = TypeVar("T")


class _Header(Struct, frozen=True):
    revision: int = 0


class _Pair(Struct, frozen=True):
    key: str = ""
    value: str = ""
    mod_revision: int = 0
    create_revision: int = 0
    lease: int = 0


class _Range(Struct, frozen=True):
    header: _Header = _Header()
    kvs: tuple[_Pair, ...] = ()
    more: bool = False


class _Done(Struct, frozen=True):
    response_range: _Range | None = None


class _Txn(Struct, frozen=True):
    header: _Header = _Header()
    succeeded: bool = False
    responses: tuple[_Done, ...] = ()


class _Lease(Struct, frozen=True):
    id: int = msgspec.field(default=0, name="ID")
    ttl: int = msgspec.field(default=0, name="TTL")


class _Renewed(Struct, frozen=True):
    result: _Lease | None = None


class _Error(Struct, frozen=True):
    message: str = ""
    error: str = ""


class EtcdEntry(NamedTuple):
    """A key as etcd holds it."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int
    lease: int


class TxnResult(NamedTuple):
    """How a transaction went. entries: what its ranges found."""

    succeeded: bool
    revision: int
    entries: list[list[EtcdEntry]]


class Etcd:
    """A cluster of etcd by its members. Methods raise `StoreUnavailable`."""

    def __init__(self, world: World, members: list[Endpoint], seconds: float) -> None:
        self._world = world
        self._members = members
        self._seconds = seconds
        self._at = 0
        """The member that is asked first: the last one that answered."""

    async def grant(self, seconds: int) -> int:
        """A lease; its id."""
        lease = (await self._ask("lease/grant", {"TTL": str(seconds)}, _Lease)).id
        if lease == 0:  # a key with the lease 0 would never end, and nobody could lead after its controller
            raise StoreUnavailable("etcd is unavailable: it grants a lease without an id")
        return lease

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease; the seconds it lives from then on, 0 when it is gone."""
        renewed = (await self._ask("lease/keepalive", {"ID": str(lease)}, _Renewed)).result
        if renewed is None:  # a member that has no leader says so with status 200
            raise StoreUnavailable("etcd is unavailable: its member cannot renew a lease")
        return renewed.ttl

    async def revoke(self, lease: int) -> None:
        """End a lease, and with it the keys that have it."""
        await self._ask("lease/revoke", {"ID": str(lease)}, _Lease)

    async def read(self, prefix: str) -> list[EtcdEntry]:
        """All keys that begin so, as they are at one moment."""
        found: list[EtcdEntry] = []
        begin, revision = prefix.encode(), 0
        while True:
            request = range_of(begin, _after(prefix), PAGE)
            if revision:
                request["revision"] = str(revision)
            page = await self._ask("kv/range", request, _Range)
            revision = revision or page.header.revision
            found += _entries(page)
            if not page.more or not page.kvs:
                return found
            begin, before = _plain(page.kvs[-1].key) + b"\0", begin
            if begin <= before:
                raise StoreUnavailable(f"etcd is unavailable: it repeatedly returns the keys of {prefix}")

    async def txn(self, compare: list[Any], success: list[Any], failure: list[Any] | None = None) -> TxnResult:
        """One transaction. When `StoreUnavailable` is raised, it may have been done."""
        failure = failure or []
        request = {"compare": compare, "success": success, "failure": failure}
        done = await self._ask("kv/txn", request, _Txn)
        ranges = [each.response_range for each in done.responses if each.response_range is not None]
        asked = sum("request_range" in each for each in (success if done.succeeded else failure))
        if len(ranges) != asked:
            raise StoreUnavailable(f"etcd is unavailable: it returned {len(ranges)} of {asked} requested ranges")
        return TxnResult(done.succeeded, done.header.revision, [_entries(each) for each in ranges])

    async def _ask(self, what: str, request: dict[str, Any], kind: type[T]) -> T:
        """The answer of the first member that has one. A question that a member may have got is not asked again."""
        body = msgspec.json.encode(request)
        why = ""
        first = self._at
        for number in range(first, first + len(self._members)):  # each once, whatever other questions do to `_at`
            member = self._members[number % len(self._members)]
            try:
                status, data = await post(self._world, member, f"/v3/{what}", body, self._seconds)
                return _decoded(status, data, kind, member)
            except ExchangeFailed as error:
                if self._at == number:
                    self._at += 1
                why = str(error)
                if error.sent:
                    break
        raise StoreUnavailable(f"etcd is unavailable: {why}")


def _decoded(status: int, data: bytes, kind: type[T], member: Endpoint) -> T:
    try:
        if status == 200:
            return msgspec.json.decode(data, type=kind, strict=False)
        said = msgspec.json.decode(data, type=_Error)
        raise ExchangeFailed(f"{member} says {said.message or said.error} ({status})", True)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExchangeFailed(f"{member} sent an invalid response with status {status}: {error}", True) from None


def _entries(page: _Range) -> list[EtcdEntry]:
    return [
        EtcdEntry(
            _plain(pair.key).decode("utf-8", "replace"),
            _plain(pair.value),
            pair.mod_revision,
            pair.create_revision,
            pair.lease,
        )
        for pair in page.kvs
    ]


def _plain(text: str) -> bytes:
    """Bytes that the gateway has written."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise StoreUnavailable(f"etcd is unavailable: {text[:40]!r} is not valid base64: {error}") from None


def coded(data: bytes | str) -> str:
    """Bytes as the gateway writes them."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _after(prefix: str) -> bytes:
    """The first key after all that begin so."""
    data = prefix.encode()
    return data[:-1] + bytes([data[-1] + 1])


def range_of(begin: bytes, end: bytes, limit: int = 0) -> dict[str, Any]:
    """A range, as a request or a part of one."""
    return {"key": coded(begin), "range_end": coded(end), "limit": str(limit)}


def read_op(prefix: str) -> dict[str, Any]:
    """Part of a transaction: read all keys that begin so."""
    return {"request_range": range_of(prefix.encode(), _after(prefix))}


def put_op(key: str, value: bytes, lease: int = 0) -> dict[str, Any]:
    """Part of a transaction: write a key."""
    return {"request_put": {"key": coded(key), "value": coded(value), "lease": str(lease)}}


def created_at(key: str, revision: int) -> dict[str, Any]:
    """Condition of a transaction: the key was made by that revision; 0: it does not exist."""
    return {"key": coded(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def changed_at(key: str, revision: int) -> dict[str, Any]:
    """Condition of a transaction: the key was last changed by that revision; 0: it does not exist."""
    return {"key": coded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
