"""What an etcd holds, and what its JSON gateway answers: keys with their revisions, leases, transactions.

As etcd 3.4 to 3.6 behaves, for the requests that a controller makes: `kv/range` and `kv/txn` with puts and ranges,
`lease/grant`, `lease/keepalive`, `lease/revoke`. `tests/proof/simulation/test_etcd.py` asks a real etcd the same.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final, NamedTuple

Json = dict[str, Any]
SHORTEST_S: Final = 2
"""A shorter lease lives so long: one and a half elections, rounded up."""
NOT_FOUND: Final = 5
OUT_OF_RANGE: Final = 11
STATUS: Final = {NOT_FOUND: 404, OUT_OF_RANGE: 400}
NO_LEASE: Final = "etcdserver: requested lease not found"
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"


class Refused(Exception):
    """An answer that is an error. code: of gRPC."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Key(NamedTuple):
    """The value of a key, and when it was written."""

    value: bytes
    created: int
    changed: int
    version: int
    lease: int


class History:
    """One state, which every member that has a majority agrees on. Only its newest revision can be read."""

    def __init__(self) -> None:
        self.revision = 1
        self.keys: dict[bytes, Key] = {}
        self.leases: dict[int, int] = {}
        """Seconds of each lease."""
        self.ends: dict[int, float] = {}
        """When each lease ends."""
        self._next_lease = 7_587_000_000_000_000_001

    def answer(self, path: str, request: Json, now: float) -> tuple[int, Json]:
        """HTTP status and body. Raises KeyError for a path that is not known."""
        try:
            return 200, HANDLERS[path](self, request, now)
        except Refused as error:
            text = str(error)
            return STATUS[error.code], {"error": text, "code": error.code, "message": text}

    def expire(self, now: float) -> None:
        """End the leases whose time is over."""
        for lease in [lease for lease, end in self.ends.items() if end <= now]:
            self._end(lease)

    def renew_all(self, now: float) -> None:
        """Another member leads: it does not know when leases were renewed last, so all of them begin again."""
        self.ends = {lease: now + seconds for lease, seconds in self.leases.items()}

    # -- requests

    def _grant(self, request: Json, now: float) -> Json:
        seconds = max(int(request["TTL"]), SHORTEST_S)
        lease, self._next_lease = self._next_lease, self._next_lease + 1
        self.leases[lease], self.ends[lease] = seconds, now + seconds
        return {**self._header(), "ID": str(lease), "TTL": str(seconds)}

    def _keep_alive(self, request: Json, now: float) -> Json:
        lease = int(request["ID"])
        result = {**self._header(), "ID": str(lease)}
        if self.ends.get(lease, now) > now:
            self.ends[lease] = now + self.leases[lease]
            result["TTL"] = str(self.leases[lease])
        return {"result": result}

    def _revoke(self, request: Json, now: float) -> Json:
        lease = int(request["ID"])
        if lease not in self.leases:
            raise Refused(NO_LEASE, NOT_FOUND)
        self._end(lease)
        return self._header()

    def _range(self, request: Json, now: float) -> Json:
        wanted = int(request.get("revision", 0))
        if wanted and wanted < self.revision:
            raise Refused(COMPACTED, OUT_OF_RANGE)
        return {**self._header(), **self._found(request)}

    def _txn(self, request: Json, now: float) -> Json:
        succeeded = all(map(self._holds, request.get("compare", ())))
        todo = request.get("success" if succeeded else "failure", ())
        puts = [one["request_put"] for one in todo if "request_put" in one]
        for put in puts:
            if int(put.get("lease", 0)) not in {0, *self.leases}:
                raise Refused(NO_LEASE, NOT_FOUND)
        responses = []
        written = self.revision + 1
        for one in todo:
            if "request_put" in one:
                self.revision = written
                self._put(one["request_put"])
                responses.append({"response_put": self._header()})
            else:
                responses.append({"response_range": {**self._header(), **self._found(one["request_range"])}})
        answer = {**self._header(), "responses": responses} if responses else self._header()
        return {**answer, "succeeded": True} if succeeded else answer

    # -- parts

    def _header(self) -> Json:
        return {"header": {"revision": str(self.revision)}}

    def _found(self, request: Json) -> Json:
        begin, end = base64.b64decode(request["key"]), base64.b64decode(request.get("range_end", ""))
        limit = int(request.get("limit", 0))
        names = sorted(name for name in self.keys if (begin <= name < end if end else name == begin))
        if not names:
            return {}
        shown = [self._shown(name, self.keys[name]) for name in (names[:limit] if limit else names)]
        more = {"more": True} if len(shown) < len(names) else {}
        return {"kvs": shown, **more, "count": str(len(names))}

    @staticmethod
    def _shown(name: bytes, key: Key) -> Json:
        shown = {
            "key": base64.b64encode(name).decode(),
            "create_revision": str(key.created),
            "mod_revision": str(key.changed),
            "version": str(key.version),
            "value": base64.b64encode(key.value).decode(),
        }
        return {**shown, "lease": str(key.lease)} if key.lease else shown

    def _holds(self, condition: Json) -> bool:
        key = self.keys.get(base64.b64decode(condition["key"]))
        assert condition["result"] == "EQUAL", condition
        if condition["target"] == "CREATE":
            return int(condition["create_revision"]) == (key.created if key is not None else 0)
        assert condition["target"] == "MOD", condition
        return int(condition["mod_revision"]) == (key.changed if key is not None else 0)

    def _put(self, request: Json) -> None:
        name = base64.b64decode(request["key"])
        before = self.keys.get(name)
        created, version = (self.revision, 1) if before is None else (before.created, before.version + 1)
        value = base64.b64decode(request.get("value", ""))
        self.keys[name] = Key(value, created, self.revision, version, int(request.get("lease", 0)))

    def _end(self, lease: int) -> None:
        del self.leases[lease], self.ends[lease]
        gone = [name for name, key in self.keys.items() if key.lease == lease]
        self.revision += bool(gone)
        for name in gone:
            del self.keys[name]


HANDLERS: Final[dict[str, Callable[[History, Json, float], Json]]] = {
    "/v3/kv/range": History._range,
    "/v3/kv/txn": History._txn,
    "/v3/lease/grant": History._grant,
    "/v3/lease/keepalive": History._keep_alive,
    "/v3/lease/revoke": History._revoke,
}
