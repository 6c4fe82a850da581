"""Rows are merged into one table, their headers decoded once, and what they do not say is as safe as can be."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.offsets import GetMaxOffsetRequestHeader
from bolide.remoting.request_routes import ORDINARY, DiskReads, Kind, RawRoute, RequestTable, Route, Row


def on_max(peer: int, command: Command, header: GetMaxOffsetRequestHeader, now: int) -> Command:
    return make_response(command, codes.SUCCESS, f"{peer} {header.topic} {header.queue_id} {now}")


def on_raw(peer: int, command: Command, now: int) -> Command:
    return make_response(command, codes.SUCCESS, f"{peer} {now}")


ROUTE: Row[int, Command] = Route(codes.GET_MAX_OFFSET, GetMaxOffsetRequestHeader, on_max, Kind.READ)


def test_a_header_is_decoded_for_its_handler() -> None:
    request = make_request(codes.GET_MAX_OFFSET, 1, {"topic": "T", "queueId": "3"})
    assert ROUTE.bound()(7, request, 9).remark == "7 T 3 9"
    with pytest.raises(HeaderError, match="the field queueId of GET_MAX_OFFSET"):
        ROUTE.bound()(7, make_request(codes.GET_MAX_OFFSET, 1, {"topic": "T"}), 9)


def test_a_raw_row_gets_the_command_alone() -> None:
    row: Row[int, Command] = RawRoute(codes.HEART_BEAT, None, on_raw, Kind.SESSION)
    assert row.bound()(7, make_request(codes.HEART_BEAT, 1), 9).remark == "7 9"


def test_row_has_defaults() -> None:
    assert (ROUTE.durable, ROUTE.fast_port, ROUTE.light, ROUTE.reads) == (True, True, False, DiskReads.NONE)


def test_a_table_knows_its_rows_and_refuses_a_second_one_of_a_code() -> None:
    table: RequestTable[int, Command] = RequestTable()
    table.add("Offsets", [ROUTE])
    pulls = RawRoute(
        codes.PULL_MESSAGE, None, on_raw, Kind.PULL, durable=False, ordinary=frozenset({codes.PULL_NOT_FOUND})
    )
    table.add("Pulls", [pulls])
    assert set(table.handlers) == {codes.GET_MAX_OFFSET, codes.PULL_MESSAGE}
    assert table.of_kind(Kind.PULL) == table.codes(lambda row: not row.durable) == {codes.PULL_MESSAGE}
    assert table.ordinary() == {
        codes.GET_MAX_OFFSET: ORDINARY,
        codes.PULL_MESSAGE: ORDINARY | {codes.PULL_NOT_FOUND},
    }
    with pytest.raises(ValueError, match="request code 30 is already served by Offsets; Others cannot serve it"):
        table.add("Others", [ROUTE])
