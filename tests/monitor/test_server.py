"""The monitoring port: it answers from a thread of its own, and no peer takes more than its share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager

import pytest

from bolide.monitor.health import Health, Pulse
from bolide.monitor.http import PageAnswer, Request, said
from bolide.monitor.server import MOST_ANSWERS, MOST_CONNECTIONS, MonitorServer
from bolide.world.real import RealWorld
from proof.kit.waiting import PATIENCE, until

Scenario = Callable[[MonitorServer, int], Awaitable[None]]


async def page(request: Request) -> PageAnswer:
    return said(200, f"{request.method} {request.path}")


async def broken(request: Request) -> PageAnswer:
    raise ZeroDivisionError("a figure")


async def large(request: Request) -> PageAnswer:
    return PageAnswer(200, bytes(64 << 20))


@asynccontextmanager
async def serving(request_s: float = PATIENCE, answer_s: float = PATIENCE) -> AsyncIterator[tuple[MonitorServer, int]]:
    world = RealWorld()
    port = world.bind("127.0.0.1", 0)
    number = port.port
    server = MonitorServer(
        world, port, {"/page": page, "/broken": broken, "/large": large}, request_s=request_s, answer_s=answer_s
    )  # fmt: skip
    await server.start()
    try:
        yield server, number
    finally:
        await server.stop()
        await server.stop()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", number), 1).close()


def ask(port: int, path: str = "/page", method: str = "GET") -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
        peer.settimeout(PATIENCE)
        peer.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return rest_of(peer)


def rest_of(peer: socket.socket) -> bytes:
    """What comes until the other side has closed."""
    found = b""
    try:
        while data := peer.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass  # aborted: what came before it counts
    return found


async def test_pages_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with serving() as (_, port):
            assert (await asyncio.to_thread(ask, port)).endswith(b"\r\n\r\nGET /page\n")
            assert (await asyncio.to_thread(ask, port, "/page", "HEAD")).endswith(b"\r\n\r\n")
            assert b" 404 " in await asyncio.to_thread(ask, port, "/other")
            assert b" 405 " in await asyncio.to_thread(ask, port, "/page", "DELETE")
            assert b" 500 " in await asyncio.to_thread(ask, port, "/broken")
            assert (await asyncio.to_thread(ask, port)).endswith(b"GET /page\n")
    assert ["/broken" in record.getMessage() for record in caplog.records] == [True]


async def test_a_peer_that_sends_no_request_is_cut_off() -> None:
    async with serving(request_s=0.05) as (server, port):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
            peer.settimeout(PATIENCE)
            peer.sendall(b"GET /page HTTP/1.1\r\n")
            assert await asyncio.to_thread(rest_of, peer) == b""
            await until(lambda: not server.connections, "the end of the connection")


async def test_a_peer_that_takes_no_answer_is_cut_off() -> None:
    async with serving(answer_s=3) as (server, port):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
            peer.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            await until(lambda: len(server.connections) == 1, "the connection")
            await until(lambda: not server.connections, "the end of the connection")


async def test_the_oldest_unfinished_request_gives_way_to_a_new_one() -> None:
    async with serving() as (server, port):
        with ExitStack() as peers:
            slow = []
            for _ in range(MOST_CONNECTIONS):
                slow.append(peers.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)))
                slow[-1].sendall(b"GET /page HTTP/1.1\r\nX: ")
            await until(lambda: len(server.connections) == MOST_CONNECTIONS, "all connections")
            for _ in range(3):
                assert b" 200 " in await asyncio.to_thread(ask, port)
            slow[0].settimeout(PATIENCE)
            assert await asyncio.to_thread(rest_of, slow[0]) == b""
            slow[-1].sendall(b"\r\n\r\n")
            slow[-1].settimeout(PATIENCE)
            assert b" 200 " in await asyncio.to_thread(rest_of, slow[-1])
        await until(lambda: not server.connections, "the end of the connections")


def unread(server: MonitorServer) -> int:
    """Answers that their peers have not taken."""
    return sum(each.answered for each in list(server.connections))


async def test_the_oldest_answer_that_is_not_taken_gives_way_to_a_new_one() -> None:
    async with serving() as (server, port):
        with ExitStack() as peers:
            early = peers.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            early.settimeout(PATIENCE)
            await until(lambda: len(server.connections) == 1, "the early connection")

            async def leave_unread(answers: int) -> None:
                for _ in range(answers):
                    peer = peers.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
                    peer.sendall(b"GET /large HTTP/1.1\r\n\r\n")
                await until(lambda: unread(server) == MOST_ANSWERS, "answers that nobody takes")

            await leave_unread(MOST_ANSWERS)
            for _ in range(3):
                assert b" 200 " in await asyncio.to_thread(ask, port)
                assert unread(server) <= MOST_ANSWERS
            await leave_unread(3)  # each answer above closed one connection at most
            early.sendall(b"GET /page HTTP/1.1\r\n\r\n")
            assert b" 200 " in await asyncio.to_thread(rest_of, early), "its answer is the newest"


async def said_of(port: int, path: str, ending: bytes) -> bytes:
    """A page once it ends so; a machine that stands still is told of, too, and is no part of the test."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await asyncio.to_thread(ask, port, path)
            if found.endswith(ending) and b"has not answered for" not in found:
                return found


async def test_a_loop_that_does_not_turn_is_told_of() -> None:
    world = RealWorld()
    port = world.bind("127.0.0.1", 0)
    number = port.port
    troubles: list[str] = []
    pulse = Pulse(asyncio.get_running_loop().call_soon_threadsafe, world.monotonic, 0.05)
    health = Health(pulse, lambda: troubles)
    server = MonitorServer(world, port, {"/healthz": health.alive, "/readyz": health.ready})
    await server.start()
    with ThreadPoolExecutor(1) as threads:
        # The loop waits in this line, and answers nothing meanwhile.
        stuck = threads.submit(ask, number, "/healthz").result(PATIENCE)
        again = threads.submit(ask, number, "/readyz").result(PATIENCE)
        assert b" 503 " in stuck and b"the event loop has not responded for " in stuck and b" 503 " in again
    await said_of(number, "/readyz", b"\r\n\r\nready\n")
    troubles[:] = ["the disk is full", "nobody knows it"]
    await said_of(number, "/readyz", b"the disk is full\nnobody knows it\n")
    assert b" 200 " in await said_of(number, "/healthz", b"\n")
    await server.stop()


async def test_a_loop_that_has_ended_is_told_of() -> None:
    def ended(*call: object) -> None:
        raise RuntimeError("Event loop is closed")

    assert await Pulse(ended, RealWorld().monotonic).stuck() == "the event loop has ended"
