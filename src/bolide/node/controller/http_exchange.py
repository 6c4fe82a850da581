"""Sends one HTTP/1.0 POST with a JSON body. The response ends when the server closes the connection."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, NamedTuple

from bolide.world.contract import World

MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a response; a larger one is an error."""


class ExchangeFailed(Exception):
    """No response was received. `sent`: whether the server may have received the request."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Endpoint(NamedTuple):
    """Address of a server. `tls` is None for unencrypted HTTP."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def post(world: World, to: Endpoint, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    """Return status and body of the response. Raises `ExchangeFailed` if no complete response arrives within
    `seconds`."""
    exchange: _Exchange | None = None
    try:
        async with asyncio.timeout(seconds):
            exchange = await world.connect(_Exchange, to.host, to.port, to.tls)
            exchange.ask(_request(to, path, body))
            return _answer(await exchange.answer, to)
    except TimeoutError:
        raise ExchangeFailed(f"{to} did not respond within {seconds:.1f} s", exchange is not None) from None
    except OSError as error:
        raise ExchangeFailed(f"{to}: {error.strerror or error}", exchange is not None) from error
    finally:
        if exchange is not None:
            exchange.close()


def _request(to: Endpoint, path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.0\r\nHost: {to}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _answer(data: bytes, to: Endpoint) -> tuple[int, bytes]:
    head, blank, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if not blank or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise ExchangeFailed(f"{to} did not respond in HTTP", True)
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-length" and value.strip() != str(len(body)):
            raise ExchangeFailed(f"{to} closed the connection within its response", True)
        if name.strip().lower() == "transfer-encoding":
            raise ExchangeFailed(f"{to} sent a chunked response, which HTTP/1.0 does not allow", True)
    return int(words[1]), body


class _Exchange:
    """asyncio protocol of one exchange."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport: Any = None
        self._parts: list[bytes] = []
        self._size = 0

    def ask(self, request: bytes) -> None:
        self._transport.write(request)

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > MOST_BYTES and not self.answer.done():
            self.answer.set_exception(OSError(f"the answer has more than {MOST_BYTES} bytes"))
            self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(OSError(str(error)))
        else:
            self.answer.set_result(b"".join(self._parts))

    def pause_writing(self) -> None:
        """Do nothing: requests are short."""

    def resume_writing(self) -> None:
        """Do nothing: requests are short."""
