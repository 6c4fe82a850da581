"""Answers of HTTP servers that a controller must not take for what they are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bolide.controller.consensus import Member, StoreUnavailable
from bolide.node.controller.etcd import Etcd, EtcdEntry, TxnResult, read_op
from bolide.node.controller.etcd_store import EtcdStore
from bolide.node.controller.http_exchange import Endpoint, ExchangeFailed, post
from bolide.world.real import RealWorld
from proof.kit.waiting import until

OK = b"HTTP/1.0 200 OK\r\n"


@asynccontextmanager
async def saying(answer: bytes | None) -> AsyncIterator[tuple[Endpoint, list[bytes]]]:
    """A server that answers everything so and closes; None: it never answers."""
    asked: list[bytes] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            await over.wait()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1]), asked
    finally:
        over.set()
        server.close()


async def test_an_answer_that_ends_with_the_connection() -> None:
    async with saying(OK + b"Content-Length: 2\r\n\r\n{}") as (server, asked):
        assert await post(RealWorld(), server, "/v3/x", b"{}", 60) == (200, b"{}")
        assert asked[0].startswith(b"POST /v3/x HTTP/1.0\r\n") and b"Content-Length: 2\r\n" in asked[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "not respond in HTTP"),
        (b"RocketMQ 200\r\n\r\n", "not respond in HTTP"),
        (OK + b"Content-Length: 9\r\n\r\n{}", "closed the connection within its response"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "chunked"),
        (None, "within"),
    ],
)
async def test_incomplete_response_is_an_error(answer: bytes | None, why: str) -> None:
    async with saying(answer) as (server, _):
        with pytest.raises(ExchangeFailed, match=why) as failed:
            await post(RealWorld(), server, "/v3/x", b"{}", 60 if answer is not None else 0.05)
        assert failed.value.sent or answer is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (OK + b"\r\n" + b'{"error":{"message":"etcdserver: no leader"}}', "cannot renew"),
        (
            b"HTTP/1.0 503 Unavailable\r\n\r\n" + b'{"error":"x","message":"no leader"}',
            "says no leader",
        ),
        (OK + b"\r\n<html>", "invalid response"),
    ],
)
async def test_a_member_that_cannot_help_is_not_taken_for_the_end_of_a_lease(answer: bytes, why: str) -> None:
    async with saying(answer) as (server, _):
        with pytest.raises(StoreUnavailable, match=why):
            await Etcd(RealWorld(), [server], 60).keep_alive(1)


async def test_the_next_member_is_asked_when_one_is_not_there() -> None:
    async with saying(None) as (gone, _):
        pass
    async with saying(OK + b'\r\n{"ID":"5","TTL":"3"}') as (server, asked):
        etcd = Etcd(RealWorld(), [gone, server], 60)
        assert await etcd.grant(3) == 5
        assert await etcd.grant(3) == 5
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("{}", "returned 0 of 1 requested ranges"),
        ('{"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"b29","value":""}]}}]}', "not valid base64"),
        ('{"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"*","value":""}]}}]}', "not valid base64"),
    ],
)
async def test_a_transaction_whose_answer_is_no_answer_is_in_doubt(answer: str, why: str) -> None:
    async with saying(OK + b"\r\n" + answer.encode()) as (server, _):
        with pytest.raises(StoreUnavailable, match=why):
            await Etcd(RealWorld(), [server], 60).txn([], [read_op("a")], [read_op("a")])


async def test_a_lease_has_an_id() -> None:
    """With the id 0 the key of the leader would belong to no lease, and outlive its controller."""
    async with saying(OK + b"\r\n{}") as (server, _):
        with pytest.raises(StoreUnavailable, match="without an id"):
            await Etcd(RealWorld(), [server], 60).grant(3)


async def test_pages_that_do_not_go_on_end() -> None:
    page = b'{"more":true,"kvs":[{"key":"YWI=","value":""}]}'
    async with saying(OK + b"\r\n" + page) as (server, asked):
        with pytest.raises(StoreUnavailable, match="repeatedly returns the keys"):
            await Etcd(RealWorld(), [server], 60).read("a")
        assert len(asked) == 2


async def test_a_controller_goes_on_to_ask_an_etcd_that_answers_nonsense() -> None:
    async with saying(OK + b'\r\n{"ID":"5","TTL":"1"}') as (server, asked):
        store = EtcdStore(RealWorld(), Etcd(RealWorld(), [server], 60), "g", Member("n0", "127.0.0.1:1"), 1)
        store.start()
        try:
            await until(lambda: sum(b"/v3/lease/grant" in each for each in asked) >= 2, "a second lease")
            assert not store.leads
        finally:
            await store.stop()


class LedByAnother(Etcd):
    """An etcd in which the controller n1 leads, and which can be cut off."""

    def __init__(self) -> None:
        super().__init__(RealWorld(), [], 1)
        self.cut_off = False

    async def grant(self, seconds: int) -> int:
        return 5

    async def keep_alive(self, lease: int) -> int:
        if self.cut_off:
            raise StoreUnavailable("etcd does not answer")
        return 1

    async def revoke(self, lease: int) -> None:
        return None

    async def txn(self, compare: list[Any], success: list[Any], failure: list[Any] | None = None) -> TxnResult:
        leader = EtcdEntry("/bolide/controller/g/leader", b"n1 127.0.0.1:2", 7, 7, 6)
        member = EtcdEntry("/bolide/controller/g/members/n1", b"127.0.0.1:2", 6, 6, 6)
        return TxnResult(len(success) == 1, 7, [[leader], [member]])


async def test_a_controller_that_is_cut_off_from_etcd_names_no_leader() -> None:
    """Brokers believe the first that names one: they would never ask the controller that leads by then."""
    etcd = LedByAnother()
    store = EtcdStore(RealWorld(), etcd, "g", Member("n0", "127.0.0.1:1"), 1)
    store.start()
    try:
        named = Member("n1", "127.0.0.1:2")
        await until(lambda: store.leadership.leader == named, "the leader")
        etcd.cut_off = True
        await until(lambda: store.leadership.leader is None, "the end of the lease")
        assert store.leadership.peers == (named,)
    finally:
        await store.stop()


async def test_concurrent_questions_each_ask_every_member() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen: connections to it are refused
        dead = Endpoint("127.0.0.1", taken.getsockname()[1])
        async with saying(OK + b'\r\n{"ID":"7","TTL":"5"}') as (living, _):
            etcd = Etcd(RealWorld(), [dead, living], 60)
            assert await asyncio.gather(*(etcd.grant(5) for _ in range(10))) == [7] * 10
