"""What the members of one client share."""

from __future__ import annotations

import asyncio
import socket

from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.remoting import codes
from tests.client.scripted_broker import ScriptedBroker


async def test_clients_begin_at_a_random_name_server() -> None:
    """Of 40 clients all begin at one of two servers once in 10^12 times."""
    with ScriptedBroker() as first, ScriptedBroker() as second:
        for number in range(40):
            options = ClientOptions(namesrv=(first.address, second.address), client_id=f"client-{number}")
            instance = ClientInstance.acquire(options)
            try:
                await instance.fetch_route("T")
                await instance.fetch_route("T")
            finally:
                await instance.release()
        counts = [len(server.requests(codes.GET_ROUTEINFO_BY_TOPIC)) for server in (first, second)]
        assert sum(counts) == 80
        assert all(count and count % 2 == 0 for count in counts)  # a client stays with a server that answers


async def test_concurrent_calls_each_ask_every_name_server() -> None:
    """All 20 clients begin at the one that lives once in 10^6 times."""
    with socket.socket() as taken, ScriptedBroker() as living:
        taken.bind(("127.0.0.1", 0))  # it does not listen: connections to it are refused
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        living.topics.update(f"T{number}" for number in range(10))
        for client in range(20):
            options = ClientOptions(namesrv=(dead, living.address), client_id=f"client-{client}")
            instance = ClientInstance.acquire(options)
            try:
                routes = await asyncio.gather(*(instance.fetch_route(f"T{number}") for number in range(10)))
            finally:
                await instance.release()
            assert len(routes) == 10
