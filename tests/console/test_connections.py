"""Peers that open connections and finish no request keep nobody out."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from bolide.console.connections import MOST_OPEN, YieldingConnection
from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE
from tests.transport.certificates import Certificate

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = (
    b"POST /login/enter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname="
)


@pytest.mark.parametrize("part", [b"", HEAD, BODY], ids=["nothing", "head", "body"])
def test_unfinished_requests_give_way_to_new_ones(bolide_broker: Broker, part: bytes) -> None:
    words = [sys.executable, "-m", "bolide", "console", "--listen", "127.0.0.1:0", "-n", bolide_broker.namesrv_addr]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as console, ExitStack() as opened:
        opened.callback(console.kill)
        assert console.stdout is not None
        address = console.stdout.readline().strip()
        port = int(address.rstrip("/").rpartition(":")[2])
        urlopen(address, timeout=PROCESS_PATIENCE).close()  # Whether the cluster has users is known from here on.
        first: socket.socket | None = None
        for _ in range(2 * MOST_OPEN):
            other = opened.enter_context(socket.create_connection(("127.0.0.1", port), PROCESS_PATIENCE))
            other.sendall(part)
            first = first or other
        for _ in range(3):
            with urlopen(address, timeout=PROCESS_PATIENCE) as page:
                assert b"The broker serves" in page.read()
        assert first is not None
        try:
            assert first.recv(1) == b"", "the oldest is closed"
        except ConnectionResetError:
            pass
        os.kill(console.pid, signal.SIGTERM)
        assert console.wait(PROCESS_PATIENCE) == 0


EARLY_S: Final = 30
"""A claim: asyncio ends an unfinished handshake after 60 s, and only then other peers could connect."""


def hello() -> bytes:
    """The first bytes of a TLS client."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="x").do_handshake()
    return sent.read()


@pytest.mark.parametrize("part", [b"", hello()[:100], hello()], ids=["nothing", "half a hello", "hello"])
def test_unfinished_handshakes_give_way_to_new_ones(bolide_broker: Broker, tmp_path: Path, part: bytes) -> None:
    own = Certificate(tmp_path)
    words = [sys.executable, "-m", "bolide", "console", "--listen", "127.0.0.1:0", "-n", bolide_broker.namesrv_addr]
    # Fewer descriptors than the connections of this test: unless it closes some, the console rejects the last ones.
    limited = ["sh", "-c", 'ulimit -n 600; exec "$@"', "sh", *words, "--certificate", own.cert, "--key", own.key]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, text=True) as console, ExitStack() as opened:
        opened.callback(console.kill)
        assert console.stdout is not None
        address = console.stdout.readline().strip()
        assert address.startswith("https://")
        port = int(address.rstrip("/").rpartition(":")[2])
        trusting = ssl.create_default_context(cafile=own.cert)
        urlopen(address, timeout=PROCESS_PATIENCE, context=trusting).close()
        first: socket.socket | None = None
        for _ in range(800):
            other = opened.enter_context(socket.create_connection(("127.0.0.1", port), PROCESS_PATIENCE))
            other.sendall(part)
            first = first or other
        for _ in range(3):
            with urlopen(address, timeout=EARLY_S, context=trusting) as page:
                assert b"The broker serves" in page.read()
        assert first is not None
        first.settimeout(EARLY_S)
        with suppress(ConnectionResetError):
            while first.recv(65_536):  # the server's part of the handshake
                pass
        os.kill(console.pid, signal.SIGTERM)
        assert console.wait(PROCESS_PATIENCE) == 0


def test_the_limit_of_open_files_is_raised(bolide_broker: Broker) -> None:
    words = [sys.executable, "-m", "bolide", "console", "--listen", "127.0.0.1:0", "-n", bolide_broker.namesrv_addr]
    limited = ["sh", "-c", 'ulimit -Sn 300; ulimit -Hn 900; exec "$@"', "sh", *words]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, text=True) as console, ExitStack() as opened:
        opened.callback(console.kill)
        assert console.stdout is not None
        assert console.stdout.readline()
        assert resource.prlimit(console.pid, resource.RLIMIT_NOFILE) == (900, 900)
        os.kill(console.pid, signal.SIGTERM)
        assert console.wait(PROCESS_PATIENCE) == 0


class Unread(asyncio.Transport):
    """A transport whose peer takes nothing."""

    aborted = False

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


async def app(scope: object, receive: object, send: object) -> None:
    """Answers nothing."""


async def test_a_peer_that_takes_no_answer_gives_way_to_new_ones() -> None:
    config, state = uvicorn.Config(app, lifespan="off"), ServerState()
    made = []
    for _ in range(MOST_OPEN + 2):
        transport = Unread()
        connection = YieldingConnection(config, state, {})
        connection.connection_made(transport)
        connection.conn.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while not isinstance(connection.conn.next_event(), h11.EndOfMessage):
            pass
        assert not connection.waits
        if len(made) < 5:
            connection.pause_writing()
        made.append(transport)
    assert [transport.aborted for transport in made[:3]] == [True, True, False]
    assert not any(transport.aborted for transport in made[3:])
