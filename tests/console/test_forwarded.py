"""The address of a browser behind proxies: no header changes it unless a trusted proxy sent it."""

from __future__ import annotations

import logging

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from bolide.console.forwarded import Forwarded, browser_address
from bolide.transport.trusted_proxies import TrustedProxies

PROXIES = TrustedProxies("10.0.0.0/8, fd00::/8")


@pytest.mark.parametrize(
    ("headers", "browser"),
    [
        ([], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7,203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        (["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
        (["198.51.100.7, <script>"], "10.0.0.1"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (["203.0.113.9:4711"], "203.0.113.9"),
        (["[2001:db8:0::7]:4711"], "2001:db8::7"),
        (["2001:db8::7, fd00::1"], "2001:db8::7"),
        (["::ffff:203.0.113.9"], "203.0.113.9"),
    ],
)
def test_last_address_that_is_not_a_trusted_proxy_is_of_the_browser(headers: list[str], browser: str) -> None:
    assert browser_address("10.0.0.1", headers, PROXIES) == browser


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Responds with the address and the scheme of the request."""
    request = Request(scope)
    assert request.client is not None
    await PlainTextResponse(f"{request.url.scheme} {request.client.host}")(scope, receive, send)


FORGED = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}


@pytest.mark.parametrize(
    ("proxies", "peer", "answer"),
    [
        ("10.0.0.1", "10.0.0.1", "https 203.0.113.9"),
        ("10.0.0.1", "10.0.0.2", "http 10.0.0.2"),
        ("", "10.0.0.1", "http 10.0.0.1"),
        ("", "127.0.0.1", "http 127.0.0.1"),
    ],
)
def test_headers_of_other_peers_are_ignored_and_logged_once(
    proxies: str, peer: str, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Forwarded(told, TrustedProxies(proxies))
    with caplog.at_level(logging.WARNING, "bolide.console"):
        for _ in range(2):
            assert TestClient(app, client=(peer, 5)).get("/", headers=FORGED).text == answer
    trusted = proxies == peer
    assert [f"{peer} sent X-Forwarded-For" in record.message for record in caplog.records] == [True] * (not trusted)


def test_request_of_a_trusted_proxy_without_headers_has_its_address() -> None:
    assert TestClient(Forwarded(told, PROXIES), client=("10.0.0.1", 5)).get("/").text == "http 10.0.0.1"
