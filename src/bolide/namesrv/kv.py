"""Keys and values by namespace: codes 100, 101, 102 and 219, stored in kvConfig.json (KVConfigManager.java)."""

from __future__ import annotations

from typing import Final

from msgspec import field

from bolide.namesrv.effects import KV_FILE, NamesrvEffects, PersistFile
from bolide.namesrv.handler import Routes
from bolide.namesrv.options import Settings
from bolide.remoting import codes
from bolide.remoting.bodies import Body, decode_body, encode_body
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from bolide.remoting.json import MAX_FILE
from bolide.remoting.request_routes import Kind, Route

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
ENTRY: Final = 32
"""Size of an entry in addition to its characters."""


class KvFile(Body):
    """kvConfig.json (KVConfigSerializeWrapper.java)."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)


def read_kv(data: bytes) -> dict[str, dict[str, str]]:
    """Decode kvConfig.json: values by namespace and key. Raises `BodyError`."""
    return decode_body(data, KvFile, limit=MAX_FILE).config_table


class KvService:
    """Key-value table, written to its file after every change.

    `data` is the content of the file, or b"" for a new file. Raises `BodyError` if it is invalid.
    """

    def __init__(self, effects: NamesrvEffects, settings: Settings, data: bytes = b"") -> None:
        self.effects = effects
        self.settings = settings
        self.table = read_kv(data) if data.strip() else {}
        self._size = sum(
            len(namespace) + ENTRY + sum(len(key) + len(value) + ENTRY for key, value in values.items())
            for namespace, values in self.table.items()
        )

    def routes(self) -> Routes:
        """Return the routes of the served request codes."""
        return [
            Route(codes.PUT_KV_CONFIG, PutKVConfigRequestHeader, self.on_put, Kind.CHANGE),
            Route(
                codes.GET_KV_CONFIG,
                GetKVConfigRequestHeader,
                self.on_get,
                Kind.READ,
                ordinary=frozenset({codes.QUERY_NOT_FOUND}),
            ),
            Route(codes.DELETE_KV_CONFIG, DeleteKVConfigRequestHeader, self.on_delete, Kind.CHANGE),
            Route(
                codes.GET_KVLIST_BY_NAMESPACE,
                GetKVListByNamespaceRequestHeader,
                self.on_list,
                Kind.READ,
                ordinary=frozenset({codes.QUERY_NOT_FOUND}),
            ),
        ]

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None if it does not exist."""
        return self.table.get(namespace, {}).get(key)

    def namespace_body(self, namespace: str) -> bytes | None:
        """Return a namespace as a KVTable body, or None if it was never written."""
        values = self.table.get(namespace)
        return None if values is None else encode_body(KVTable(values))

    def on_put(self, channel_id: int, command: Command, header: PutKVConfigRequestHeader, now: int) -> Command:
        """PUT_KV_CONFIG."""
        values = self.table.get(header.namespace)
        before = None if values is None else values.get(header.key)
        more = len(header.value) - len(before) if before is not None else len(header.key) + len(header.value) + ENTRY
        if values is None:
            more += len(header.namespace) + ENTRY
        most = self.settings.options.max_kv_config_bytes
        if more > 0 and self._size + more > most:
            remark = (
                f"the keys and values would be more than maxKvConfigBytes = {most} allows: delete some of them first"
            )
            return make_response(command, codes.SYSTEM_ERROR, remark)
        self._size += more
        self.table.setdefault(header.namespace, {})[header.key] = header.value
        self._persist()
        return make_response(command, codes.SUCCESS)

    def on_get(self, channel_id: int, command: Command, header: GetKVConfigRequestHeader, now: int) -> Command:
        """GET_KV_CONFIG."""
        value = self.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return make_response(command, codes.QUERY_NOT_FOUND, remark)
        return make_response(command, codes.SUCCESS, ext=GetKVConfigResponseHeader(value=value).to_ext())

    def on_delete(self, channel_id: int, command: Command, header: DeleteKVConfigRequestHeader, now: int) -> Command:
        """DELETE_KV_CONFIG. Succeeds for a missing key."""
        value = self.table.get(header.namespace, {}).pop(header.key, None)
        if value is not None:
            self._size -= len(header.key) + len(value) + ENTRY
            self._persist()
        return make_response(command, codes.SUCCESS)

    def on_list(
        self, channel_id: int, command: Command, header: GetKVListByNamespaceRequestHeader, now: int
    ) -> Command:
        """GET_KVLIST_BY_NAMESPACE."""
        namespace = header.namespace
        body = self.namespace_body(namespace)
        if body is None:
            return make_response(command, codes.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return make_response(command, codes.SUCCESS, body=body)

    def _persist(self) -> None:
        self.effects.add(PersistFile(KV_FILE, encode_body(KvFile(self.table))))
