"""Requests that a blocking connection writes together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.errors import ConnectionLost, RequestTimeout
from bolide.remoting.command import Command, encode, make_request
from bolide.transport.blocking import MAX_OPAQUE, ClientConnection, PendingRun
from tests.transport.echo import CLOSE, ECHO, SILENT, SWAP, echo_peer


@pytest.fixture
def peer() -> Iterator[tuple[ClientConnection, list[Command]]]:
    with echo_peer() as (address, seen), ClientConnection.connect(address) as connection:
        yield connection, seen


def start(connection: ClientConnection, *asked: int, timeout: float = 60.0) -> PendingRun:
    """A run with these request codes; the body of each names its place."""

    def frames(opaque: int) -> list[bytes]:
        return [encode(make_request(code, opaque + at, body=b"%d" % at)) for at, code in enumerate(asked)]

    return connection.start_run(frames, len(asked), timeout)


def bodies(run: PendingRun) -> list[bytes | None]:
    return [None if answer is None else answer.body for answer in run.results()[0]]


def test_answers_are_in_the_order_of_the_requests(peer: tuple[ClientConnection, list[Command]]) -> None:
    connection, seen = peer
    first, second = start(connection, SWAP, SWAP, ECHO), start(connection, ECHO)
    single = connection.request(make_request(ECHO, 0, body=b"single"), 60.0)
    assert (bodies(second), bodies(first), single.body) == ([b"0"], [b"0", b"1", b"2"], b"single")
    assert first.results()[1] is None
    assert len({command.opaque for command in seen}) == 5


def test_a_silent_request_does_not_hide_the_answers_of_others(peer: tuple[ClientConnection, list[Command]]) -> None:
    connection, _ = peer
    run = start(connection, ECHO, SILENT, ECHO, timeout=1.0)
    assert connection.request(make_request(ECHO, 0, body=b"after"), 60.0).body == b"after"
    assert bodies(run) == [b"0", None, b"2"]
    assert isinstance(run.results()[1], RequestTimeout)
    assert connection.in_flight == 0
    assert bodies(start(connection, ECHO)) == [b"0"]


def test_a_connection_that_ends_leaves_the_answers_before(peer: tuple[ClientConnection, list[Command]]) -> None:
    connection, _ = peer
    run = start(connection, ECHO, CLOSE, ECHO)
    assert bodies(run) == [b"0", None, None]
    assert isinstance(run.results()[1], ConnectionLost)
    assert bodies(start(connection, ECHO)) == [None]


def test_opaques_of_a_run_do_not_wrap(peer: tuple[ClientConnection, list[Command]]) -> None:
    connection, seen = peer
    connection._opaque = MAX_OPAQUE - 1
    assert bodies(start(connection, ECHO, ECHO)) == [b"0", b"1"]
    assert [command.opaque for command in seen] == [1, 2]
