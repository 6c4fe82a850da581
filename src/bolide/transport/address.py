"""Addresses as RocketMQ writes them: ``host:port``, several joined by ``;`` (or ``,``)."""

from __future__ import annotations

from typing import Final

from bolide.errors import ConfigError

NAMESRV_VARIABLES: Final = ("ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR")
"""Variables with the default name servers of RocketMQ's clients and brokers. The first, Java's property, takes
precedence."""


def split_address(address: str) -> tuple[str, int]:
    """Return ``host:port`` as a pair; an IPv6 host may be in brackets. Raises `ConfigError`."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is not an address, write host:port with a port from 1 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def split_addresses(text: str) -> tuple[str, ...]:
    """Return the checked addresses of a list such as ``10.0.0.1:9876;10.0.0.2:9876``. Raises `ConfigError`."""
    addresses = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    for address in addresses:
        split_address(address)
    if not addresses:
        raise ConfigError("the list of addresses is empty, write host:port;host:port")
    return addresses
