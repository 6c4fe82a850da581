"""Where the name servers are: a list of addresses, or an address server asked over HTTP (RocketMQ's TopAddressing).

The address server answers a GET with ``host:port;host:port`` in its first line. It is asked before the first request
and every two minutes. While it cannot be reached, or its answer cannot be read, its last answer counts.
Java's system properties are environment variables here: `rocketmq.namesrv.addr` is ROCKETMQ_NAMESRV_ADDR, and so on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bolide.client.messages.arguments import check_text, shown
from bolide.errors import ArgumentError, ConfigError, ConnectionLost
from bolide.transport.address import NAMESRV_VARIABLES, split_addresses
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.client")

LOCAL_NAMESRV: Final = "127.0.0.1:9876"
ENVIRONMENT: Final = ("BOLIDE_NAMESRV_ADDR", *NAMESRV_VARIABLES)
"""Variables that hold addresses; the first that is set counts. Ours is a broker's setting, too."""
DOMAIN: Final = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP: Final = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"
DEFAULT_SUBGROUP: Final = "nsaddr"
DOMAIN_PORT: Final = 8080
SCHEMES: Final = ("http://", "https://")
REFRESH_INTERVAL: Final = 120.0
HTTP_TIMEOUT: Final = 3.0
MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read at most: some three thousand addresses."""


def configured_namesrv(given: str | Sequence[str], unit: str = "") -> tuple[str, ...]:
    """Return the addresses that a user gave as a text or a list, or the one URL of an address server.

    Raises `ArgumentError`, and `ConfigError` if the environment is wrong.

    A URL without a path is not asked: as in Java, ``http://host:port`` is just another way to write ``host:port``.
    For "" the environment decides: ``BOLIDE_NAMESRV_ADDR``, ``ROCKETMQ_NAMESRV_ADDR`` or ``NAMESRV_ADDR`` like the
    argument, else ``ROCKETMQ_NAMESRV_DOMAIN`` the host of an address server, which is asked for those of `unit`; and
    without any it is this machine. Which of them it was is logged.
    """
    text = _joined(given)
    if not text:
        text, source = _from_environment(unit)
        log.info("name servers: %s (%s)", text, source)
        try:
            return _addresses_in(text)
        except ConfigError as error:
            raise ConfigError(f"the name servers {source}: {error}") from None
    try:
        return _addresses_in(text)
    except ConfigError as error:
        raise ArgumentError(f"namesrv: {error}", "namesrv") from None


def _joined(given: object) -> str:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        listed = [check_text("namesrv", address) for address in given]
        if not all(listed):
            raise ArgumentError(f"namesrv {listed} has an empty address, give each as host:port", "namesrv")
        given = ";".join(listed) or ";"  # an empty list is an error, and does not select the default
    if not isinstance(given, str):
        raise ArgumentError(f"namesrv is {shown(given)}, give host:port, several in a list", "namesrv")
    return given


def _addresses_in(text: str) -> tuple[str, ...]:
    text = text.strip()
    if not text.startswith(SCHEMES):
        return split_addresses(text)
    host, _, path = text.partition("://")[2].partition("/")
    return (text,) if path else split_addresses(host)


def _from_environment(unit: str) -> tuple[str, str]:
    """The addresses to use when none is given, and where they come from."""
    for variable in ENVIRONMENT:
        if os.environ.get(variable):
            return os.environ[variable], f"from {variable}"
    url = _domain_url(unit)
    return (url, f"from {DOMAIN}") if url else (LOCAL_NAMESRV, "the default: no variable names others")


def _domain_url(unit: str) -> str:
    """The address server's URL, as Java's getWSAddr and TopAddressing put it together; "" without a domain."""
    domain = os.environ.get(DOMAIN, "").strip()
    if not domain:
        return ""
    host = domain if domain.find(":") > 0 else f"{domain}:{DOMAIN_PORT}"
    url = f"http://{host}/rocketmq/{os.environ.get(SUBGROUP, '').strip() or DEFAULT_SUBGROUP}"
    return f"{url}-{unit}?nofix=1" if unit else url


class NameServers:
    """The addresses known now."""

    def __init__(self, configured: tuple[str, ...], world: World = THE_WORLD) -> None:
        self._in_thread = world.in_thread
        self.url = configured[0] if configured and configured[0].startswith(SCHEMES) else ""
        self.addresses: tuple[str, ...] = () if self.url else configured
        self._asking = asyncio.Lock()

    async def known(self) -> tuple[str, ...]:
        """The addresses, asked for if none are known yet. Raises `ConnectionLost` when nobody tells them."""
        if not self.addresses:
            async with self._asking:
                if not self.addresses:
                    await self.refresh()
        return self.addresses

    async def refresh(self) -> None:
        """Ask the address server again. Raises `ConnectionLost`, and keeps the addresses known."""
        try:
            async with asyncio.timeout(3 * HTTP_TIMEOUT):  # for a server that drips its answer
                text = await self._in_thread(_fetch, self.url)
            self.addresses = split_addresses(text)
        except (OSError, ValueError, ConfigError) as error:
            raise ConnectionLost(f"the address server {self.url} names no name servers: {error}") from error


def _fetch(url: str) -> str:
    """The first line of the answer. The timeout is for each step of the conversation."""
    # Few clients have an address server, and HTTP is a tenth of what importing the client costs.
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url), timeout=HTTP_TIMEOUT) as answer:  # configured_namesrv lets only http through
            body: bytes = answer.read(MAX_ANSWER + 1)
    except HTTPException as error:
        raise ValueError(str(error) or repr(error)) from error
    if len(body) > MAX_ANSWER:
        raise ValueError(f"its answer has more than {MAX_ANSWER} bytes")
    return body.decode("ascii").strip().partition("\n")[0].strip()
