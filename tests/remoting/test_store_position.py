"""The extension with which a command asks for the state of a store."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.remoting.store_position import StorePosition, asks_for_position, position_ext, position_of

POSITION = StorePosition("/data/store", run=1_700_000_000_000, cuts=2, begin=4096, written=9000, synced=8000)


def test_only_a_request_with_the_field_asks() -> None:
    assert asks_for_position(make_request(codes.GET_BROKER_RUNTIME_INFO, 1, position_ext()))
    assert not asks_for_position(make_request(codes.GET_BROKER_RUNTIME_INFO, 1))
    assert not asks_for_position(make_request(codes.GET_BROKER_RUNTIME_INFO, 1, {"bolideStorePosition": "false"}))


def test_position_returns_from_its_keys() -> None:
    assert position_of({"putTps": "1", **POSITION.table()}) == POSITION


@pytest.mark.parametrize("key", sorted(POSITION.table()))
def test_position_needs_all_of_its_keys(key: str) -> None:
    table = POSITION.table()
    assert position_of({name: value for name, value in table.items() if name != key}) is None
    assert key.endswith("_root") or position_of({**table, key: "x"}) is None
