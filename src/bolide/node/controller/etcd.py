"""Client of etcd (3.4 and newer) that uses its JSON gateway: ranges, transactions, leases.

The gateway takes one POST per request, which `http_exchange` makes through the `World`. Python's etcd clients use gRPC
with its own threads and sockets, which cannot be simulated.
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
    """A key as stored by etcd."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int
    lease: int


class TxnResult(NamedTuple):
    """Result of a transaction. `entries`: results of its ranges."""

    succeeded: bool
    revision: int
    entries: list[list[EtcdEntry]]


class Etcd:
    """Client of an etcd cluster with these members. `seconds`: timeout of a request to one member. Methods raise
    `StoreUnavailable`."""

    def __init__(self, world: World, members: list[Endpoint], seconds: float) -> None:
        self._world = world
        self._members = members
        self._seconds = seconds
        self._at = 0
        """Index of the member to query first: the last one that responded."""

    async def grant(self, seconds: int) -> int:
        """Create a lease. Return its id."""
        lease = (await self._ask("lease/grant", {"TTL": str(seconds)}, _Lease)).id
        if lease == 0:  # A key with lease 0 would never expire, so no other controller could become the leader.
            raise StoreUnavailable("etcd is unavailable: it grants a lease without an id")
        return lease

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease. Return its new lifetime in seconds, or 0 if it has expired."""
        renewed = (await self._ask("lease/keepalive", {"ID": str(lease)}, _Renewed)).result
        if renewed is None:  # a member without a leader responds like this, with status 200
            raise StoreUnavailable("etcd is unavailable: its member cannot renew a lease")
        return renewed.ttl

    async def revoke(self, lease: int) -> None:
        """Revoke a lease and the keys attached to it."""
        await self._ask("lease/revoke", {"ID": str(lease)}, _Lease)

    async def read(self, prefix: str) -> list[EtcdEntry]:
        """Return all keys with this prefix, read at one revision."""
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
        """Run one transaction. After `StoreUnavailable` it may or may not have been applied."""
        failure = failure or []
        request = {"compare": compare, "success": success, "failure": failure}
        done = await self._ask("kv/txn", request, _Txn)
        ranges = [each.response_range for each in done.responses if each.response_range is not None]
        asked = sum("request_range" in each for each in (success if done.succeeded else failure))
        if len(ranges) != asked:
            raise StoreUnavailable(f"etcd is unavailable: it returned {len(ranges)} of {asked} requested ranges")
        return TxnResult(done.succeeded, done.header.revision, [_entries(each) for each in ranges])

    async def _ask(self, what: str, request: dict[str, Any], kind: type[T]) -> T:
        """Return the response of the first reachable member. A request that a member may have received is not
        repeated."""
        body = msgspec.json.encode(request)
        why = ""
        first = self._at
        # each member once, even if concurrent requests change `_at`
        for number in range(first, first + len(self._members)):
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
    """Decode base64 text of the gateway."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise StoreUnavailable(f"etcd is unavailable: {text[:40]!r} is not valid base64: {error}") from None


def coded(data: bytes | str) -> str:
    """Encode bytes for the gateway as base64."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _after(prefix: str) -> bytes:
    """Return the first key after all keys with this prefix."""
    data = prefix.encode()
    return data[:-1] + bytes([data[-1] + 1])


def range_of(begin: bytes, end: bytes, limit: int = 0) -> dict[str, Any]:
    """Return a range request for the keys from `begin` to `end` (exclusive). `limit`: maximum keys, or 0 for all."""
    return {"key": coded(begin), "range_end": coded(end), "limit": str(limit)}


def read_op(prefix: str) -> dict[str, Any]:
    """Return an operation of a transaction: read all keys with this prefix."""
    return {"request_range": range_of(prefix.encode(), _after(prefix))}


def put_op(key: str, value: bytes, lease: int = 0) -> dict[str, Any]:
    """Return an operation of a transaction: write a key."""
    return {"request_put": {"key": coded(key), "value": coded(value), "lease": str(lease)}}


def created_at(key: str, revision: int) -> dict[str, Any]:
    """Return a condition of a transaction: the key was created at this revision, or does not exist if it is 0."""
    return {"key": coded(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def changed_at(key: str, revision: int) -> dict[str, Any]:
    """Return a condition of a transaction: the key was last modified at this revision, or does not exist if it is 0."""
    return {"key": coded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
