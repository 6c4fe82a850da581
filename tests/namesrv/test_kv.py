"""Keys and values, and their file."""

from __future__ import annotations

import json

import pytest

from bolide.namesrv.effects import KV_FILE, PersistFile
from bolide.namesrv.kv import ENTRY
from bolide.remoting import codes
from bolide.remoting.bodies import decode_body
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.errors import BodyError
from bolide.remoting.headers import decode_header
from bolide.remoting.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from tests.namesrv.peer import World


def test_put_get_list_delete_and_the_file_after_each_change() -> None:
    world = World()
    peer = world.peer()
    get = GetKVConfigRequestHeader(namespace="ns", key="k")
    listing = GetKVListByNamespaceRequestHeader(namespace="ns")
    peer.ask(codes.GET_KV_CONFIG, get, expect=codes.QUERY_NOT_FOUND)
    peer.ask(codes.GET_KVLIST_BY_NAMESPACE, listing, expect=codes.QUERY_NOT_FOUND)
    assert world.server.take_effects() == []
    peer.ask(codes.PUT_KV_CONFIG, PutKVConfigRequestHeader(namespace="ns", key="k", value="wért"))
    assert decode_header(peer.ask(codes.GET_KV_CONFIG, get), GetKVConfigResponseHeader).value == "wért"
    assert decode_body(peer.ask(codes.GET_KVLIST_BY_NAMESPACE, listing).body, KVTable).table == {"k": "wért"}
    (effect,) = world.server.take_effects()
    assert isinstance(effect, PersistFile)
    assert effect.name == KV_FILE
    assert json.loads(effect.data) == {"configTable": {"ns": {"k": "wért"}}}

    again = World(kv=effect.data).peer()
    assert decode_header(again.ask(codes.GET_KV_CONFIG, get), GetKVConfigResponseHeader).value == "wért"
    for changes in (1, 0):
        again.ask(codes.DELETE_KV_CONFIG, DeleteKVConfigRequestHeader(namespace="ns", key="k"))
        assert len(again.world.server.take_effects()) == changes
    again.ask(codes.GET_KV_CONFIG, get, expect=codes.QUERY_NOT_FOUND)
    assert decode_body(again.ask(codes.GET_KVLIST_BY_NAMESPACE, listing).body, KVTable).table == {}


def test_a_file_java_wrote_is_read() -> None:
    text = b'{\n\t"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"\n\t\t}\n\t}\n}'
    assert World(kv=text).server.kv.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"


def test_a_file_that_cannot_be_read_stops_the_start() -> None:
    assert World(kv=b" \n").server.kv.table == {}
    with pytest.raises(BodyError):
        World(kv=b"{]")


def test_missing_fields_are_named() -> None:
    response = World().peer().ask(codes.PUT_KV_CONFIG, GetKVConfigRequestHeader(namespace="n", key="k"), expect=1)
    assert "value" in (response.remark or "")


def test_keys_and_values_have_a_limit() -> None:
    world = World(max_kv_config_bytes=3 * ENTRY + 20)
    peer = world.peer()

    def put(key: str, value: str, expect: int = codes.SUCCESS, namespace: str = "ns") -> str | None:
        header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        return peer.ask(codes.PUT_KV_CONFIG, header, expect=expect).remark

    put("a", "1" * 8)
    put("b", "1" * 8)  # 20 characters, and the namespace and two entries
    world.server.take_effects()
    why = "the keys and values would be more than maxKvConfigBytes = 116 allows: delete some of them first"
    assert put("a", "1" * 9, codes.SYSTEM_ERROR) == why
    assert put("c", "", codes.SYSTEM_ERROR) == why
    assert put("c", "", codes.SYSTEM_ERROR, "other") == why
    assert world.server.take_effects() == []
    put("a", "2" * 7)
    put("b", "2" * 9)
    peer.ask(codes.DELETE_KV_CONFIG, DeleteKVConfigRequestHeader(namespace="ns", key="a"))
    effect = world.server.take_effects()[-1]
    assert isinstance(effect, PersistFile)
    for now in (world, World(kv=effect.data, max_kv_config_bytes=3 * ENTRY + 20)):
        peer = now.peer()
        put("c", "3" * 8, codes.SYSTEM_ERROR)
        put("c", "3" * 7)
