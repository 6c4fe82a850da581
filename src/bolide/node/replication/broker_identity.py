"""The files `brokerIdentity` and `brokerIdentity-temp`: the id that the controller assigned to this broker
(BrokerMetadata.java, TempBrokerMetadata.java).

The file `brokerIdentity-life` is specific to Bolide. Each start generates a random token, and registers with it and the
previous token. So the controller can detect that a store folder was copied or restored from an older state.
"""

from __future__ import annotations

from typing import NamedTuple

from bolide.errors import ConfigError
from bolide.remoting.replica_claims import NO_CLAIMS, Claims
from bolide.store.disk.files import Files
from bolide.store.errors import StoreDamaged


class Applied(NamedTuple):
    """A requested broker id, with the check code that identifies the requester."""

    broker_id: int
    check_code: str


class BrokerIdentity:
    """Stored identity of the broker of one store. Methods block on the disk."""

    def __init__(self, files: Files, path: str, cluster: str, name: str) -> None:
        self._files = files
        self._path = path
        self._cluster = cluster
        self._name = name

    def load(self) -> int:
        """Return the broker id, or 0 if none was assigned. Raises `ConfigError` for a store of another set, and
        `StoreDamaged`."""
        found = self._read(self._path, 3)
        return 0 if found is None else self._id(found[2], self._path)

    def applied(self) -> Applied | None:
        """Return the pending request of a crashed start, or None. An empty file, as a crash of Java leaves it, is
        ignored."""
        found = self._read(self._path + "-temp", 4) if self._files.read_file(self._path + "-temp") else None
        return None if found is None else Applied(self._id(found[2], self._path + "-temp"), found[3])

    def apply(self, applied: Applied) -> None:
        """Persist an id request before sending it, so that a retry after a crash uses the same check code and gets the
        same id."""
        text = f"{self._cluster}#{self._name}#{applied.broker_id}#{applied.check_code}"
        self._files.write_file(self._path + "-temp", text.encode())

    def keep(self, broker_id: int) -> None:
        """Store the assigned id, then remove the request. After a crash in between, the next start uses the stored
        id."""
        self._files.write_file(self._path, f"{self._cluster}#{self._name}#{broker_id}".encode())
        self.forget()

    def forget(self) -> None:
        """Remove the request, because its id belongs to another broker."""
        self._files.remove(self._path + "-temp")

    def life(self) -> Claims:
        """Return the token of this start, and that of the last start that registered. Raises `StoreDamaged`.

        The token of this start is "" unless an earlier start was interrupted while it registered. That token must be
        reused, because the controller may have stored it.
        """
        path = self._path + "-life"
        data = self._files.read_file(path)
        if data is None:
            return NO_CLAIMS
        before, mark, life = data.decode("ascii", "replace").strip().partition("#")
        if not (mark and (before + life).replace("-", "").isalnum()):
            raise StoreDamaged(
                f"{path} contains {data[:80]!r} instead of a token; restore it, or delete it together with {self._path}"
            )
        return Claims(life, before)

    def begin_life(self, claims: Claims) -> None:
        """Store a token before it is sent to the controller."""
        self._files.write_file(self._path + "-life", f"{claims.before}#{claims.life}".encode())

    def keep_life(self, life: str) -> None:
        """Mark the token as registered. If the broker crashes before, the next start registers with the same token."""
        self._files.write_file(self._path + "-life", f"{life}#".encode())

    def _read(self, path: str, parts: int) -> list[str] | None:
        data = self._files.read_file(path)
        if data is None:
            return None
        try:
            found = data.decode().strip().split("#")
        except UnicodeDecodeError as error:
            raise StoreDamaged(f"{path} contains no broker id: {error}; restore it") from error
        if len(found) != parts:
            raise StoreDamaged(f"{path} contains {data[:80]!r} instead of a broker id; restore it")
        if found[:2] != [self._cluster, self._name]:
            raise ConfigError(
                f"{path} is of {found[1]} in the cluster {found[0]}, not of {self._name} in {self._cluster}: "
                f"this store belongs to another set"
            )
        return found

    def _id(self, text: str, path: str) -> int:
        if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 63:
            raise StoreDamaged(f"{path} contains {text[:40]!r} instead of a broker id; restore it")
        return int(text)
