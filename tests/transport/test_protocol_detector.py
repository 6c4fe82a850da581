"""Frames, TLS and PROXY preambles on one port, each whole and byte by byte, on both loops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from bolide.errors import ConfigError
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.transport.client import ClientConnection
from bolide.transport.protocol_detector import Ingress
from bolide.transport.server import ServerConnection, accepting
from bolide.transport.tls_contexts import server_context
from bolide.transport.trusted_proxies import TrustedProxies
from bolide.world.real import RealWorld
from proof.kit.waiting import PATIENCE, until
from tests.transport.certificates import Certificate, have_openssl
from tests.transport.entrances import entrance_of, trusting

needs_openssl = pytest.mark.skipif(not have_openssl(), reason="certificates are made with openssl")
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
BIG = 3_000_000


class EchoOwner:
    """Answers every command with its own body, and notes what it is told."""

    def __init__(self) -> None:
        self.connection: Any = None
        self.bad: list[str] = []
        self.addresses: list[str] = []
        self.open = 0

    def connected(self, connection: ServerConnection) -> Any:
        self.connection = connection
        self.open += 1
        return self

    def received(self, peer: Any, commands: list[Command]) -> None:
        self.connection.write([encode(make_response(command, 0, body=command.body)) for command in commands])

    def bad_frame(self, peer: Any, error: Exception) -> None:
        self.bad.append(str(error))

    def proxied(self, peer: Any, connection: ServerConnection) -> None:
        self.addresses.append(f"{connection.remote_ip}:{connection.remote_port}")

    def caught_up(self, peer: Any) -> None:
        """What is written here waits for nothing."""

    def closed(self, peer: Any) -> None:
        self.open -= 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def on_loop(scenario: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scenario, 2 * PATIENCE))

    return on_loop


@asynccontextmanager
async def served(ingress: Ingress) -> AsyncIterator[tuple[EchoOwner, int]]:
    owner = EchoOwner()
    port = RealWorld().bind("127.0.0.1", 0)
    await port.serve(accepting(owner, 1 << 24, 1 << 20, 1 << 26, ingress))
    try:
        yield owner, port.port
    finally:
        port.close()


async def ask(port: int, context: ssl.SSLContext | None, body: bytes = b"hello") -> bytes:
    client = await ClientConnection.connect(f"127.0.0.1:{port}", ssl=context)
    try:
        return (await client.request(make_request(11, 0, body=body), PATIENCE)).body
    finally:
        client.close()
        await client.wait_closed()


async def answer_to(port: int, pieces: list[bytes]) -> bytes:
    """What comes back for raw bytes until a whole frame is there, or the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    head = await reader.read(4)
    rest = await reader.readexactly(int.from_bytes(head, "big")) if len(head) == 4 else b""
    writer.close()
    await writer.wait_closed()
    return rest


@needs_openssl
def test_single_port_serves_tls_and_clear_frames(
    run: Callable[[Coroutine[Any, Any, None]], None], certificate: Certificate
) -> None:
    async def scenario() -> None:
        async with served(entrance_of(certificate)) as (owner, port):
            context = trusting(certificate)
            assert await ask(port, None) == b"hello"
            assert await ask(port, context) == b"hello"
            big = bytes(range(256)) * (BIG // 256)
            assert await ask(port, context, big) == big
            assert await ask(port, None, big) == big
            await until(lambda: owner.open == 0)
            assert owner.bad == []

    run(scenario())


@needs_openssl
@pytest.mark.parametrize("mode", ["disabled", "permissive", "enforcing"])
def test_rejected_protocol_is_closed_with_one_log_line(
    run: Callable[[Coroutine[Any, Any, None]], None], certificate: Certificate, mode: str
) -> None:
    async def scenario() -> None:
        ingress = entrance_of(certificate, mode) if mode == "enforcing" else Ingress(mode)
        async with served(ingress) as (owner, port):
            if mode == "enforcing":
                assert await answer_to(port, [encode(make_request(11, 1))]) == b""
                assert await ask(port, trusting(certificate)) == b"hello"
                assert "does not speak TLS" in owner.bad[0]
            else:
                assert await answer_to(port, [b"\x16\x03\x01\x02\0"]) == b""
                assert await ask(port, None) == b"hello"
                assert "wants TLS" in owner.bad[0]
            await until(lambda: owner.open == 0)

    run(scenario())


@needs_openssl
def test_a_client_without_the_certificate_asked_for_is_refused(
    run: Callable[[Coroutine[Any, Any, None]], None], certificate: Certificate
) -> None:
    async def scenario() -> None:
        async with served(entrance_of(certificate, client_auth="require")) as (owner, port):
            context = trusting(certificate)
            context.load_cert_chain(certificate.cert, certificate.key)
            assert await ask(port, context) == b"hello"
            with pytest.raises(Exception, match="closed|TLS|lost|certificate"):
                await ask(port, trusting(certificate))
            await until(lambda: owner.open == 0)
            assert len(owner.bad) == 1 and owner.bad[0].startswith("TLS failed")

    run(scenario())


@needs_openssl
def test_broken_tls_closes_one_connection(
    run: Callable[[Coroutine[Any, Any, None]], None], certificate: Certificate
) -> None:
    async def scenario() -> None:
        async with served(entrance_of(certificate)) as (owner, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01\0\x05garbage and more of it")
            assert (await reader.read())[:1] == b"\x15"  # an alert tells the peer why
            writer.close()
            await writer.wait_closed()
            await until(lambda: owner.open == 0)
            assert owner.bad[0].startswith("TLS failed")
            assert await ask(port, trusting(certificate)) == b"hello"

    run(scenario())


V1 = b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 10911\r\n"
V2 = b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x21, 0x11, 0, 12, 203, 0, 113, 7, 10, 0, 0, 1, 0xDC, 4, 0x2A, 0x9F])
NAMELESS = b"PROXY UNKNOWN\r\n"
BEHIND_A_BALANCER = Ingress(proxies=TrustedProxies("127.0.0.0/8"))


@pytest.mark.parametrize("listed", ["", "127.0.0.2, 203.0.113.7, ::1", "10.0.0.0/8"])
def test_header_of_unlisted_address_closes_the_connection(
    run: Callable[[Coroutine[Any, Any, None]], None], listed: str
) -> None:
    async def scenario() -> None:
        async with served(Ingress(proxies=TrustedProxies(listed))) as (owner, port):
            for count, header in enumerate([V1, V2, NAMELESS], 1):
                assert await answer_to(port, [header + encode(make_request(11, 1))]) == b""
                assert owner.addresses == [] and len(owner.bad) == count
                assert "trustedProxies does not list" in str(owner.bad[-1])
            assert await answer_to(port, [encode(make_request(11, 1))]) != b""

    run(scenario())


@pytest.mark.parametrize("byte_by_byte", [False, True])
def test_a_preamble_names_the_client_before_frames(
    run: Callable[[Coroutine[Any, Any, None]], None], byte_by_byte: bool
) -> None:
    async def scenario() -> None:
        async with served(BEHIND_A_BALANCER) as (owner, port):
            data = V1 + encode(make_request(11, 1))
            pieces = [data[i : i + 1] for i in range(len(data))] if byte_by_byte else [data]
            assert await answer_to(port, pieces) != b""
            assert owner.addresses == ["203.0.113.7:56324"] and owner.bad == []
            assert await answer_to(port, [b"PROXY nonsense\r\n"]) == b""
            assert len(owner.bad) == 1

    run(scenario())


def test_a_second_preamble_is_a_bad_frame(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def scenario() -> None:
        async with served(BEHIND_A_BALANCER) as (owner, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(V1)
            await until(lambda: owner.addresses != [])
            writer.write(V1)
            assert await reader.read() == b""
            assert len(owner.addresses) == len(owner.bad) == 1
            writer.close()
            await writer.wait_closed()

    run(scenario())


@needs_openssl
async def test_a_preamble_stands_before_tls_in_the_clear(certificate: Certificate) -> None:
    async with asyncio.timeout(2 * PATIENCE), served(entrance_of(certificate)) as (owner, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(V1)
        await writer.start_tls(trusting(certificate), server_hostname="127.0.0.1")
        frame = encode(make_request(11, 1))
        writer.write(frame)
        assert len(await reader.readexactly(4)) == 4
        writer.close()
        assert owner.addresses == ["203.0.113.7:56324"]


@needs_openssl
def test_settings_that_do_not_fit_stop_the_start(certificate: Certificate, tmp_path: Path) -> None:
    cert, key = certificate.cert, certificate.key
    with pytest.raises(ConfigError, match="tlsKeyPath is missing"):
        server_context(cert, "", "", "", "none")
    with pytest.raises(ConfigError, match=r"tlsCertPath = .* is not a file"):
        server_context(str(tmp_path / "gone"), key, "", "", "none")
    with pytest.raises(ConfigError, match="cannot be used"):
        server_context(cert, certificate.locked_key, "wrong", "", "none")
    with pytest.raises(ConfigError, match="tlsTrustCertPath"):
        server_context(cert, key, "", "", "require")
    assert server_context(cert, certificate.locked_key, "secret", "", "none").verify_mode == ssl.CERT_NONE
