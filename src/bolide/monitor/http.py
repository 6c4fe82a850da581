"""The little HTTP that a scrape needs: one GET or HEAD a connection, bytes in, bytes out. A hostile head is refused by
its size or shape; time and connections are bounded by `server`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 8 * 1024
"""The longest head of a request that is read: Prometheus sends some 300 bytes."""
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """What is looked at of a request."""

    method: str
    path: str
    """Without its query."""
    accept: str = ""


@dataclass(frozen=True)
class PageAnswer:
    """What a page says."""

    status: int
    body: bytes
    content_type: str = PLAIN

    def encode(self, without_body: bool = False) -> bytes:
        """The bytes of the answer; the connection ends after it."""
        head = (
            f"HTTP/1.1 {self.status} {REASONS[self.status]}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode("ascii") + (b"" if without_body else self.body)


def said(status: int, *lines: str) -> PageAnswer:
    """An answer in words."""
    return PageAnswer(status, "".join(line + "\n" for line in lines).encode())


class BadRequest(Exception):
    """The request is answered with `answer`, whatever it asked for."""

    def __init__(self, answer: PageAnswer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


def parse_request(data: bytes) -> Request | None:
    """The request at the front of these bytes; None while its head is not whole. Raises `BadRequest`."""
    end = data.find(b"\r\n\r\n")
    if end > HEAD_BYTES or (end < 0 and len(data) > HEAD_BYTES):
        raise BadRequest(said(431, f"the head of the request is longer than {HEAD_BYTES} bytes"))
    if end < 0:
        return None
    first, *fields = data[:end].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/") or not first.isascii():
        raise BadRequest(said(400, "not a valid HTTP/1 request: send GET /metrics HTTP/1.1"))
    method = words[0].decode()
    if method not in ("GET", "HEAD"):
        raise BadRequest(said(405, "only GET and HEAD are supported"))
    accept = ""
    for field in fields:
        name, colon, value = field.partition(b":")
        if not colon or not name or name != name.strip():
            raise BadRequest(said(400, "a header field of the request has no name"))
        if name.lower() == b"accept":
            accept = value.strip().decode("latin-1")
        elif name.lower() in (b"content-length", b"transfer-encoding") and value.strip() != b"0":
            raise BadRequest(said(400, "requests with a body are not supported"))
    return Request(method, words[1].decode().partition("?")[0], accept)
