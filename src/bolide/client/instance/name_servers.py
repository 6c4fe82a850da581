"""Addresses of the name servers: a list, or an address server that is queried over HTTP (RocketMQ's TopAddressing).

The address server responds to a GET with ``host:port;host:port`` in the first line. The client queries it before the
first request and every two minutes. While it is unreachable or sends an invalid response, its last response is used.
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
"""Variables that contain addresses; the first variable that is set is used. BOLIDE_NAMESRV_ADDR is also a broker's
setting."""
DOMAIN: Final = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP: Final = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"
DEFAULT_SUBGROUP: Final = "nsaddr"
DOMAIN_PORT: Final = 8080
SCHEMES: Final = ("http://", "https://")
REFRESH_INTERVAL: Final = 120.0
HTTP_TIMEOUT: Final = 3.0
MAX_ANSWER: Final = 64 * 1024
"""Maximum size of a response in bytes: some three thousand addresses."""


def configured_namesrv(given: str | Sequence[str], unit: str = "") -> tuple[str, ...]:
    """Return the addresses that a user gave as a text or a list, or the one URL of an address server.

    Raises `ArgumentError`, and `ConfigError` if the environment is wrong.

    A URL without a path is not queried: as in Java, ``http://host:port`` is another form of ``host:port``. For "", the
    first of these variables is used, in the same form: ``BOLIDE_NAMESRV_ADDR``, ``ROCKETMQ_NAMESRV_ADDR``,
    ``NAMESRV_ADDR``. Without them, ``ROCKETMQ_NAMESRV_DOMAIN`` is the host of an address server, which is queried for
    `unit`. The default is 127.0.0.1:9876. Logs the source unless it is `given`.
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
    """Return the addresses to use by default, and their source."""
    for variable in ENVIRONMENT:
        if os.environ.get(variable):
            return os.environ[variable], f"from {variable}"
    url = _domain_url(unit)
    return (url, f"from {DOMAIN}") if url else (LOCAL_NAMESRV, "the default: no variable names others")


def _domain_url(unit: str) -> str:
    """Return the address server's URL, as Java's getWSAddr and TopAddressing build it, or "" without a domain."""
    domain = os.environ.get(DOMAIN, "").strip()
    if not domain:
        return ""
    host = domain if domain.find(":") > 0 else f"{domain}:{DOMAIN_PORT}"
    url = f"http://{host}/rocketmq/{os.environ.get(SUBGROUP, '').strip() or DEFAULT_SUBGROUP}"
    return f"{url}-{unit}?nofix=1" if unit else url


class NameServers:
    """The current addresses of the name servers."""

    def __init__(self, configured: tuple[str, ...], world: World = THE_WORLD) -> None:
        self._in_thread = world.in_thread
        self.url = configured[0] if configured and configured[0].startswith(SCHEMES) else ""
        self.addresses: tuple[str, ...] = () if self.url else configured
        self._asking = asyncio.Lock()

    async def known(self) -> tuple[str, ...]:
        """Return the addresses; query them first if they are unknown. Raises `ConnectionLost` if that fails."""
        if not self.addresses:
            async with self._asking:
                if not self.addresses:
                    await self.refresh()
        return self.addresses

    async def refresh(self) -> None:
        """Query the address server. If that fails, raises `ConnectionLost` and keeps the previous addresses."""
        try:
            async with asyncio.timeout(3 * HTTP_TIMEOUT):  # for a server that sends its response slowly
                text = await self._in_thread(_fetch, self.url)
            self.addresses = split_addresses(text)
        except (OSError, ValueError, ConfigError) as error:
            raise ConnectionLost(f"the address server {self.url} sent no valid list: {error}") from error


def _fetch(url: str) -> str:
    """Return the first line of the response. The timeout applies to each operation of the socket."""
    # Few clients have an address server, and importing HTTP takes a tenth of the time that importing the client takes.
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url), timeout=HTTP_TIMEOUT) as answer:  # configured_namesrv allows only http and https
            body: bytes = answer.read(MAX_ANSWER + 1)
    except HTTPException as error:
        raise ValueError(str(error) or repr(error)) from error
    if len(body) > MAX_ANSWER:
        raise ValueError(f"its response has more than {MAX_ANSWER} bytes")
    return body.decode("ascii").strip().partition("\n")[0].strip()
