"""Minimal HTTP for scrapers, without I/O: one GET or HEAD request per connection. Rejects heads that are too long or
malformed. The module `server` limits time and connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 8 * 1024
"""Maximum size of a request head in bytes. Prometheus sends about 300."""
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
    """The parts of a request that pages use."""

    method: str
    path: str
    """Path without the query."""
    accept: str = ""


@dataclass(frozen=True)
class PageAnswer:
    """The response of a page."""

    status: int
    body: bytes
    content_type: str = PLAIN

    def encode(self, without_body: bool = False) -> bytes:
        """Return the response as bytes. The caller must close the connection after sending them."""
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
    """Return a plain text response."""
    return PageAnswer(status, "".join(line + "\n" for line in lines).encode())


class BadRequest(Exception):
    """The request is invalid: `answer` is the response to send."""

    def __init__(self, answer: PageAnswer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


def parse_request(data: bytes) -> Request | None:
    """Return the request at the start of `data`, or None if its head is incomplete. Raises `BadRequest` if the head is
    invalid or too long, or if the request has a body."""
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
