"""Connections to names with several addresses: one that drops every packet does not hold up the others."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator

import pytest

from bolide.world.connecting import Place, first_connected
from proof.kit.waiting import PATIENCE

STREAM = socket.SOCK_STREAM


@pytest.fixture
def listening() -> Iterator[Place]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield socket.AF_INET, STREAM, 0, server.getsockname()


@pytest.fixture
def silent() -> Iterator[Place]:
    """An address whose queue of connections is full, so that further ones get no answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        place = server.getsockname()
        held = []
        for _ in range(6):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(place)
            held.append(one)
        yield socket.AF_INET, STREAM, 0, place
        for one in held:
            one.close()


def closed() -> Place:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
    return socket.AF_INET, STREAM, 0, place


async def test_second_address_is_reached_while_the_first_is_silent(silent: Place, listening: Place) -> None:
    async with asyncio.timeout(PATIENCE):
        with await first_connected([silent, listening], stagger=0.01) as sock:
            assert sock.getpeername() == listening[3]
    gc.collect()


async def test_address_that_refuses_is_followed_by_the_next_without_a_pause(listening: Place) -> None:
    async with asyncio.timeout(PATIENCE):
        with await first_connected([closed(), listening], stagger=PATIENCE * 2) as sock:
            assert sock.getpeername() == listening[3]


async def test_error_is_that_of_the_first_address() -> None:
    with pytest.raises(ConnectionRefusedError):
        await first_connected([closed(), closed()])
    unknown_protocol = socket.AF_INET, STREAM, 9_999, ("127.0.0.1", 1)
    for _ in range(20):
        with pytest.raises(ConnectionRefusedError):
            await first_connected([closed(), unknown_protocol], stagger=0)


async def test_cancellation_closes_all(silent: Place) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await first_connected([silent, silent], stagger=0.001)
    assert len(asyncio.all_tasks()) == 1
