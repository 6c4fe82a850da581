"""A connection that leads nowhere is closed; one whose peer is only slow with an answer is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.transport.client import SILENT_S, ClientConnection
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.process import Process

ANSWERED, IGNORED = 1, 2
PORT = 9876


class Peer(asyncio.Protocol):
    """Answers one code and ignores the other."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._core = FramedConnection(1 << 20)

    def data_received(self, data: bytes) -> None:
        for command in self._core.receive(data):
            if command.code == ANSWERED:
                self._transport.write(encode(make_response(command, 0)))


async def serve(process: Process) -> None:
    await process.world.bind("", PORT).serve(Peer)
    await asyncio.get_running_loop().create_future()


def talk(what: Any) -> list[Any]:
    """Run `what(cluster, connection)` in a client; what it returns."""

    async def scenario(cluster: Cluster) -> object:
        server = cluster.start("server", serve)
        await cluster.until(lambda: cluster.network.ports, "the port")

        async def client(process: Process) -> object:
            connection = await ClientConnection.connect(f"{server.host.ip}:{PORT}", world=process.world)
            return await what(cluster, connection)

        return await cluster.ended(cluster.start("client", client), 600)

    value = Simulation(1).run(scenario).value
    assert isinstance(value, list)
    return value


async def ask(connection: ClientConnection, code: int, timeout: float) -> Command | BolideError:
    try:
        return await connection.request(make_request(code, 0, {}), timeout)
    except BolideError as error:
        return error


@pytest.mark.parametrize("timeout", [SILENT_S, SILENT_S / 2, 0.25])
def test_requests_in_a_black_hole_close_the_connection(timeout: float) -> None:
    async def what(cluster: Cluster, connection: ClientConnection) -> list[Any]:
        assert not isinstance(await ask(connection, ANSWERED, timeout), BolideError)
        cluster.black_hole("client", "server")
        long = asyncio.ensure_future(ask(connection, IGNORED, 100.0))
        began = asyncio.get_running_loop().time()
        while not connection.closed:
            assert isinstance(await ask(connection, ANSWERED, timeout), RequestTimeout | ConnectionLost)
            await asyncio.sleep(timeout / 10)
        return [asyncio.get_running_loop().time() - began, await long]

    seconds, long = talk(what)
    assert SILENT_S <= seconds < SILENT_S + 3 * timeout + 1
    assert isinstance(long, ConnectionLost) and "nothing came from" in str(long)


def test_a_peer_that_is_slow_with_one_answer_keeps_its_connection() -> None:
    async def what(cluster: Cluster, connection: ClientConnection) -> list[Any]:
        waiting = [asyncio.ensure_future(ask(connection, IGNORED, 4.0)) for _ in range(3)]
        for _ in range(5):
            assert not isinstance(await ask(connection, ANSWERED, 1.0), BolideError)
            await asyncio.sleep(1.0)
        return [*await asyncio.gather(*waiting), connection.closed]

    *late, closed = talk(what)
    assert all(isinstance(one, RequestTimeout) for one in late)
    assert closed is False


def test_a_process_that_stood_still_reads_first() -> None:
    async def what(cluster: Cluster, connection: ClientConnection) -> list[Any]:
        asked = asyncio.ensure_future(ask(connection, ANSWERED, SILENT_S))
        await asyncio.sleep(0)
        cluster.pause("client")
        cluster.processes["scenario"].loop.call_soon_threadsafe(
            cluster.processes["scenario"].loop.call_later, 60.0, cluster.resume, "client"
        )
        await asked
        await asyncio.sleep(1.0)
        return [connection.closed]

    assert talk(what) == [False]
