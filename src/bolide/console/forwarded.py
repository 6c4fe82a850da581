"""Addresses of browsers behind a proxy, such as an ingress: the headers X-Forwarded-For and X-Forwarded-Proto.

Each proxy appends the address of its peer to X-Forwarded-For. So only the last addresses are reliable: the header of a
browser may contain any addresses before them.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from bolide.access.addresses import unmapped
from bolide.transport.trusted_proxies import TrustedProxies

log = logging.getLogger("bolide.console")

FOR: Final = "x-forwarded-for"
PROTO: Final = "x-forwarded-proto"


class Forwarded:
    """ASGI middleware: replaces the address and the scheme of a request that a trusted proxy forwarded. Requests of
    other peers keep theirs, and the first one with a header is logged."""

    def __init__(self, inner: ASGIApp, proxies: TrustedProxies) -> None:
        self._inner = inner
        self._proxies = proxies
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] == "http" and scope.get("client"):
            headers = Headers(scope=scope)
            peer, port = scope["client"]
            if self._proxies.trusts(peer):
                client = browser_address(peer, headers.getlist(FOR), self._proxies)
                scope = {**scope, "client": (client, port if client == peer else 0)}
                if headers.getlist(PROTO) == ["https"]:
                    scope["scheme"] = "https"
            elif FOR in headers and not self._warned:
                self._warned = True
                log.warning(
                    "%s sent X-Forwarded-For and is not in --trusted-proxies: wrong passwords of all its users count "
                    "together; list it if it is your proxy",
                    peer,
                )
        await self._inner(scope, receive, send)


def browser_address(peer: str, headers: list[str], proxies: TrustedProxies) -> str:
    """Return the last address that is not a trusted proxy. `headers` are the values of X-Forwarded-For, in order.

    Reads the headers from their end, after `peer`, which is a trusted proxy. A text that is not an address ends the
    search. Returns the address that was read last if all are trusted.
    """
    found = peer
    for text in reversed(",".join(headers).split(",")):
        address = _address(text.strip())
        if address is None:
            break
        found = address
        if not proxies.trusts(address):
            break
    return found


def _address(text: str) -> str | None:
    """Return an IP address without its port and brackets, or None if the text is not one."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(unmapped(text)))
    except ValueError:
        return None
