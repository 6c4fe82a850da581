"""The HTTP of a scrape: what is taken for a request, and what is refused."""

from __future__ import annotations

import pytest

from bolide.monitor.http import HEAD_BYTES, BadRequest, PageAnswer, Request, parse_request


def test_a_request_is_read_once_its_head_is_whole() -> None:
    data = b"GET /metrics?name=x HTTP/1.1\r\nHost: here\r\nACCEPT: text/plain\r\n\r\nmore"
    for end in range(data.index(b"\r\n\r\n") + 4):
        assert parse_request(data[:end]) is None
    assert parse_request(data) == Request("GET", "/metrics", "text/plain")
    assert parse_request(b"HEAD / HTTP/1.0\r\nContent-Length: 0\r\n\r\n") == Request("HEAD", "/")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET http://other/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"x" * (HEAD_BYTES + 1), 431),
        (b"GET / HTTP/1.1\r\na: " + b"x" * HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
def test_invalid_request_is_rejected(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_request(data)
    assert refused.value.answer.status == status


def test_an_answer_ends_its_connection() -> None:
    whole = PageAnswer(503, b"the disk is full\n").encode()
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"Connection: close" in head
    assert b"Content-Length: 17\r\n" in head and body == b"the disk is full\n"
    assert PageAnswer(503, b"the disk is full\n").encode(without_body=True) == head + b"\r\n\r\n"
