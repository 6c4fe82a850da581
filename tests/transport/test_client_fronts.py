"""One contract, two fronts: asyncio and blocking connections behave alike towards the same peer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import pytest

from bolide.errors import BolideError, ConfigError, ConnectionLost, ProtocolError, RequestTimeout
from bolide.remoting.command import Command, make_request, make_response
from bolide.transport import blocking
from bolide.transport import client as native
from bolide.transport.address import split_address, split_addresses
from bolide.transport.pool import ConnectionPool
from tests.transport.echo import ASK, CLOSE, ECHO, GARBAGE, SILENT, SWAP, echo_peer


class Front(Protocol):
    """The two fronts under one set of words; an outcome is an answer or the error in its place."""

    def connect(self, address: str, on_request: Any = None) -> None: ...
    def ask(self, *commands: Command, timeout: float = 5.0) -> list[Command | BolideError]: ...
    def oneway(self, command: Command) -> None: ...
    def closed(self) -> bool: ...
    def close(self) -> None: ...


class Blocking:
    def connect(self, address: str, on_request: Any = None) -> None:
        self.connection = blocking.ClientConnection.connect(address, on_request=on_request)

    def ask(self, *commands: Command, timeout: float = 5.0) -> list[Command | BolideError]:
        outcomes: list[Command | BolideError] = []
        for pending in [self.connection.start(command, timeout) for command in commands]:
            try:
                outcomes.append(pending.result())
            except BolideError as error:
                outcomes.append(error)
        return outcomes

    def oneway(self, command: Command) -> None:
        self.connection.oneway(command)

    def closed(self) -> bool:
        return self.connection.closed

    def close(self) -> None:
        self.connection.close()


class Native:
    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await work()

        return self.runner.run(main())

    def connect(self, address: str, on_request: Any = None) -> None:
        self.connection: native.ClientConnection = self.run(
            lambda: native.ClientConnection.connect(address, on_request=on_request)
        )

    def ask(self, *commands: Command, timeout: float = 5.0) -> list[Command | BolideError]:
        async def main() -> Any:
            futures = [self.connection.start(command, timeout) for command in commands]
            return await asyncio.gather(*futures, return_exceptions=True)

        outcomes: list[Command | BolideError] = self.run(main)
        return outcomes

    def oneway(self, command: Command) -> None:
        async def main() -> None:
            self.connection.oneway(command)
            await asyncio.sleep(0)

        self.run(main)

    def closed(self) -> bool:
        self.run(lambda: asyncio.sleep(0))
        return self.connection.closed

    def close(self) -> None:
        async def main() -> None:
            self.connection.close()
            await self.connection.wait_closed()

        self.run(main)


@pytest.fixture(params=["blocking", "native"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    if request.param == "blocking":
        made = Blocking()
        yield made
        if hasattr(made, "connection"):
            made.close()
    else:
        other = Native()
        yield other
        if hasattr(other, "connection"):
            other.close()
        other.runner.close()


def bodies(outcomes: list[Command | BolideError]) -> list[bytes]:
    return [outcome.body for outcome in outcomes if isinstance(outcome, Command)]


def test_many_requests_are_in_flight_and_each_gets_its_answer(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        requests = [make_request(ECHO, 0, body=b"%d" % number) for number in range(100)]
        assert bodies(front.ask(*requests)) == [b"%d" % number for number in range(100)]


def test_answers_may_come_in_another_order(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        assert bodies(front.ask(make_request(SWAP, 0, body=b"1"), make_request(SWAP, 0, body=b"2"))) == [b"1", b"2"]


def test_a_body_larger_than_any_buffer(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        body = b"x" * (3 << 20)
        assert bodies(front.ask(make_request(ECHO, 0, body=body))) == [body]


def test_no_answer_is_a_timeout_and_the_connection_goes_on(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        (outcome,) = front.ask(make_request(SILENT, 0), timeout=0.05)
        assert isinstance(outcome, RequestTimeout)
        assert bodies(front.ask(make_request(ECHO, 0, body=b"x"))) == [b"x"]


def test_a_peer_that_closes_fails_everyone_who_waits(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        outcomes = front.ask(make_request(SILENT, 0), make_request(CLOSE, 0))
        assert [type(outcome) for outcome in outcomes] == [ConnectionLost, ConnectionLost]
        assert front.closed()
        (after,) = front.ask(make_request(ECHO, 0))
        assert isinstance(after, ConnectionLost)


def test_garbage_ends_the_connection(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        (outcome,) = front.ask(make_request(GARBAGE, 0))
        assert isinstance(outcome, ProtocolError)
        assert front.closed()


def test_a_oneway_request_gets_no_answer(front: Front) -> None:
    with echo_peer() as (address, seen):
        front.connect(address)
        front.oneway(make_request(ECHO, 0, oneway=True))
        assert bodies(front.ask(make_request(ECHO, 0, body=b"x"))) == [b"x"]
        assert [command.is_oneway for command in seen] == [True, False]


def test_the_peer_may_ask_too(front: Front) -> None:
    asked: list[int] = []

    def on_request(connection: Any, command: Command) -> None:
        asked.append(command.code)
        connection.reply(make_response(command, 0))

    with echo_peer() as (address, seen):
        front.connect(address, on_request)
        front.ask(make_request(ASK, 0))
        front.ask(make_request(ECHO, 0))
        assert asked == [99]
        assert any(command.is_response and command.opaque == 5 for command in seen)


def test_connecting_to_a_closed_port_fails(front: Front) -> None:
    with pytest.raises(ConnectionLost, match="cannot connect"):
        front.connect("127.0.0.1:1")


def test_closing_twice_and_asking_after(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        front.close()
        front.close()
        assert front.closed()
        with pytest.raises(ConnectionLost):
            front.oneway(make_request(ECHO, 0, oneway=True))


def test_a_pool_shares_and_forgets_blocking() -> None:
    with echo_peer() as (address, _), blocking.ConnectionPool() as pool:
        first = pool.get(address)
        assert pool.get(address) is first
        pool.drop(address)
        assert first.closed
        assert pool.get(address) is not first


async def test_a_pool_shares_one_attempt_and_greets_before_anyone_asks() -> None:
    order: list[str] = []

    async def greet(connection: native.ClientConnection) -> None:
        await connection.request(make_request(ECHO, 0), 60)
        order.append("greeted")

    with echo_peer() as (address, _):
        pool = ConnectionPool(greet=greet)
        first, second = await asyncio.gather(pool.get(address), pool.get(address))
        order.append("got")
        assert first is second
        assert pool.addresses() == [address]
        pool.drop(address)
        assert pool.live(address) is None
        third = await pool.get(address)
        assert third is not first
        await pool.close()
        assert third.closed
        with pytest.raises(ConnectionLost):
            await pool.get(address)
    assert order == ["greeted", "got", "greeted"]


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x"])
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        split_address(address)


def test_addresses() -> None:
    assert split_address("[::1]:9876") == ("::1", 9876)
    assert split_addresses(" a:1 ; b:2,c:3;") == ("a:1", "b:2", "c:3")
    with pytest.raises(ConfigError, match="empty"):
        split_addresses(" ; ")


def test_connection_that_closes_before_any_answer_asks_for_tls(front: Front) -> None:
    with echo_peer() as (address, _):
        front.connect(address)
        (outcome,) = front.ask(make_request(CLOSE, 0))
        assert "does the port require TLS" in str(outcome)
        front.connect(address)
        assert bodies(front.ask(make_request(ECHO, 0, body=b"x"))) == [b"x"]
        (outcome,) = front.ask(make_request(CLOSE, 0))
        assert isinstance(outcome, ConnectionLost)
        assert "TLS" not in str(outcome)
