"""Where the name servers are: lists, the environment, an address server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bolide.client import Message
from bolide.client.instance.name_servers import (
    DOMAIN,
    ENVIRONMENT,
    LOCAL_NAMESRV,
    MAX_ANSWER,
    SUBGROUP,
    NameServers,
    configured_namesrv,
)
from bolide.client.instance.options import ClientOptions
from bolide.errors import ArgumentError, ConfigError, ConnectionLost
from bolide.testing.broker import Broker
from tests.client.patient import Producer


class AddressServer:
    """Answers every GET with `answer`."""

    def __init__(self) -> None:
        self.answer = b""
        self.status = 200
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, format: str, *args: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/rocketmq/nsaddr"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def stop(self) -> None:
        """End it."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def address_server() -> Iterator[AddressServer]:
    server = AddressServer()
    yield server
    server.stop()


def test_name_servers_come_from_argument_environment_or_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENVIRONMENT, DOMAIN, SUBGROUP):
        monkeypatch.delenv(name, raising=False)
    assert configured_namesrv("") == (LOCAL_NAMESRV,)
    assert configured_namesrv("a:1; b:2") == ("a:1", "b:2")
    assert configured_namesrv("http://a/x") == ("http://a/x",)
    monkeypatch.setenv("NAMESRV_ADDR", "c:3;d:4")
    assert configured_namesrv("") == ClientOptions.of("").namesrv == ("c:3", "d:4")
    for text in ("a:1", "http://a:1", "http://a:1/"):
        assert configured_namesrv(text) == ("a:1",)
    monkeypatch.setenv("ROCKETMQ_NAMESRV_ADDR", "e:5")  # Java's property counts before NAMESRV_ADDR
    assert configured_namesrv("") == ("e:5",)
    with pytest.raises(ArgumentError, match="namesrv: 'ftp://a/x' is not an address") as refused:
        configured_namesrv("ftp://a/x")
    assert refused.value.argument == "namesrv"
    monkeypatch.setenv("ROCKETMQ_NAMESRV_ADDR", "e")
    with pytest.raises(ConfigError, match="from ROCKETMQ_NAMESRV_ADDR: 'e' is not an address"):
        configured_namesrv("")


@pytest.mark.parametrize(
    ("domain", "subgroup", "url"),
    [
        ("names.example", "", "http://names.example:8080/rocketmq/nsaddr"),
        ("names.example:81", "blue", "http://names.example:81/rocketmq/blue"),
        ("", "blue", LOCAL_NAMESRV),
    ],
)
def test_the_environment_names_an_address_server(
    monkeypatch: pytest.MonkeyPatch, domain: str, subgroup: str, url: str
) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(DOMAIN, domain)
    monkeypatch.setenv(SUBGROUP, subgroup)
    assert configured_namesrv("") == (url,)
    of_unit = url if url == LOCAL_NAMESRV else f"{url}-blue?nofix=1"
    assert ClientOptions.of("", unit="blue").namesrv == (of_unit,)
    monkeypatch.setenv("NAMESRV_ADDR", "c:3")
    assert configured_namesrv("") == ("c:3",)


async def test_an_address_server_is_asked_once_and_again(address_server: AddressServer) -> None:
    servers = NameServers((address_server.url,))
    address_server.answer = b"a:1;b:2\nignored\n"
    both = await asyncio.gather(servers.known(), servers.known())
    assert list(both) == [("a:1", "b:2")] * 2
    assert address_server.asked == 1
    address_server.answer = b"c:3\r\n"
    await servers.refresh()
    assert await servers.known() == ("c:3",)


@pytest.mark.parametrize(
    ("status", "answer"),
    [(500, b"a:1"), (200, b""), (200, b"<html>"), (200, b"b:2\n" + b" " * MAX_ANSWER), (200, "ä:1".encode())],
    ids=["status", "empty", "html", "long", "bytes"],
)
async def test_nonsense_keeps_what_was_known(address_server: AddressServer, status: int, answer: bytes) -> None:
    servers = NameServers((address_server.url,))
    address_server.answer = b"a:1"
    await servers.known()
    address_server.status, address_server.answer = status, answer
    with pytest.raises(ConnectionLost, match="address server"):
        await servers.refresh()
    assert await servers.known() == ("a:1",)
    with pytest.raises(ConnectionLost, match="address server"):
        await NameServers((address_server.url,)).known()


async def test_a_producer_finds_its_broker_by_an_address_server(
    address_server: AddressServer, bolide_broker: Broker
) -> None:
    address_server.answer = bolide_broker.namesrv_addr.encode()
    async with Producer("P", address_server.url) as producer:
        await producer.send(Message("T", b"x"))
    assert address_server.asked == 1
