"""Ctrl-C in the callback of a request does not prevent the end of other requests."""

from __future__ import annotations

import pytest

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.transport.client import ClientConnection

Outcome = Command | BolideError | None


def interrupted(connection: ClientConnection, timeout: float) -> tuple[list[Command], list[Outcome]]:
    """Start three requests. Ctrl-C interrupts the first and the last. Return them, and the list for the outcomes."""
    outcomes: list[Outcome] = []
    requests: list[Command] = []

    def interrupt(answer: Command | None, error: BolideError | None) -> None:
        raise KeyboardInterrupt

    for done in (interrupt, lambda answer, error: outcomes.append(answer or error), interrupt):
        opaque = connection.next_opaque()
        requests.append(make_request(codes.GET_BROKER_RUNTIME_INFO, opaque, {}))
        connection.start_frame(opaque, b"", timeout, done)
    return requests, outcomes


async def test_a_lost_connection_ends_each_request() -> None:
    connection = ClientConnection("127.0.0.1:1")
    _, outcomes = interrupted(connection, 60.0)
    with pytest.raises(KeyboardInterrupt):
        connection.connection_lost(None)
    assert [type(each) for each in outcomes] == [ConnectionLost]
    assert connection.in_flight == 0


async def test_responses_of_one_read_end_each_request() -> None:
    connection = ClientConnection("127.0.0.1:1")
    requests, outcomes = interrupted(connection, 60.0)
    with pytest.raises(KeyboardInterrupt):
        connection.data_received(b"".join(encode(make_response(each, codes.SUCCESS)) for each in requests))
    assert [type(each) for each in outcomes] == [Command]
    assert connection.in_flight == 0
    connection.close()


async def test_a_timeout_ends_each_request() -> None:
    connection = ClientConnection("127.0.0.1:1")
    _, outcomes = interrupted(connection, 0.0)
    later = connection.start(make_request(codes.GET_BROKER_RUNTIME_INFO, 0, {}), 0.01)
    with pytest.raises(KeyboardInterrupt):
        connection._expire()
    assert [type(each) for each in outcomes] == [RequestTimeout]
    with pytest.raises(RequestTimeout):
        await later
