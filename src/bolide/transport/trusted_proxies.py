"""Addresses of the load balancers that may send a PROXY header: `trustedProxies`.

The header replaces the address of its sender, which access rules (`whiteRemoteAddress`, `sourceIps`) and logs use.
RocketMQ accepts it from every address. The console has such a list for the header X-Forwarded-For.
"""

from __future__ import annotations

import ipaddress

from bolide.access.addresses import unmapped
from bolide.errors import ConfigError


class TrustedProxies:
    """A list of addresses and networks. Raises `ConfigError` if one is invalid."""

    def __init__(self, text: str = "", setting: str = "trustedProxies") -> None:
        """`text` contains addresses and networks, such as `10.0.0.7, 10.1.0.0/16`. If it is empty, no address is
        trusted. `setting` is its name for the error."""
        self._networks = [_network(part.strip(), text, setting) for part in text.split(",") if part.strip()]

    def trusts(self, address: str) -> bool:
        """Return whether a peer with this address, given without a port, may send the header."""
        if not self._networks:
            return False
        try:
            peer = ipaddress.ip_address(unmapped(address))
        except ValueError:
            return False
        return any(peer in network for network in self._networks)


def _network(part: str, text: str, setting: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(part)
    except ValueError as error:
        raise ConfigError(
            f"{setting} = {text!r} is not allowed: {error}; write addresses and networks, such as 10.0.0.7,10.1.0.0/16"
        ) from None
