"""The proxy passes, delays, drops and cuts either direction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from proof.chaos.proxy import Proxy
from proof.kit.ports import reserve_port


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[Proxy, asyncio.StreamReader, asyncio.StreamWriter, list[bytes]]]:
    """A server that answers what it gets, a proxy before it, and a connection through the proxy."""
    got: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            got.append(data)
            writer.write(data.upper())
        writer.close()

    port, behind = reserve_port(), reserve_port()
    server = await asyncio.start_server(answer, "127.0.0.1", behind)
    proxy = Proxy("one", ("127.0.0.1", port), ("127.0.0.1", behind))
    await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield proxy, reader, writer, got
    finally:
        writer.close()
        await proxy.stop()
        server.close()


async def test_data_arrives_after_a_cut_heals() -> None:
    async with echo() as (proxy, reader, writer, got):
        writer.write(b"a")
        assert await reader.readexactly(1) == b"A"
        proxy.cut("from")
        writer.write(b"b")
        while len(got) < 2:
            await asyncio.sleep(0.01)
        answer = asyncio.ensure_future(reader.readexactly(1))
        assert not (await asyncio.wait([answer], timeout=0.1))[0]
        proxy.cut("both")
        writer.write(b"c")
        assert not (await asyncio.wait([answer], timeout=0.1))[0]
        assert got == [b"a", b"b"]
        proxy.heal()
        assert await answer == b"B"
        assert await reader.readexactly(1) == b"C"
        assert proxy.passed == 6


async def test_dropped_connections_end_at_both_ends() -> None:
    async with echo() as (proxy, reader, writer, _):
        writer.write(b"a")
        assert await reader.readexactly(1) == b"A"
        assert proxy.drop() == 1
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass


async def test_an_address_that_the_target_names_is_that_of_the_proxy() -> None:
    async with echo() as (proxy, reader, writer, got):
        proxy.shown = {b"AT 127.0.0.2:10001": b"AT 127.0.0.1:20002"}
        writer.write(b"at 127.0.0.2:10001, at 127.0.0.2:10003")
        assert await reader.readexactly(38) == b"AT 127.0.0.1:20002, AT 127.0.0.2:10003"
        assert got == [b"at 127.0.0.2:10001, at 127.0.0.2:10003"]


async def test_a_delay_keeps_the_order() -> None:
    async with echo() as (proxy, reader, writer, _):
        proxy.delay = 0.01
        for letter in b"abcdef":
            writer.write(bytes([letter]))
        assert await reader.readexactly(6) == b"ABCDEF"
