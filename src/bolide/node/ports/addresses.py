"""Determines and checks the address that a broker registers (`brokerIP1`), given its listen address.

Clients connect to the registered address. A broker whose registered address does not lead to its port would seem alive
but be unreachable, so it does not start.
"""

from __future__ import annotations

import ipaddress

from bolide.errors import ConfigError
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

ANY = ("0.0.0.0", "::", "")


def announced_ip(bind_address: str, broker_ip: str, world: World = THE_WORLD) -> str:
    """Return the IP to register and to store in records. Raises `ConfigError` if it cannot lead to the listen
    address."""
    bound = resolved("bindAddress", bind_address, world) if bind_address not in ANY else ""
    if not broker_ip:
        return bound or world.own_ip()
    told = resolved("brokerIP1", broker_ip, world)
    if bound and ipaddress.ip_address(bound).is_loopback and not ipaddress.ip_address(told).is_loopback:
        raise ConfigError(
            f"brokerIP1 = {broker_ip} cannot be reached: the broker listens on {bind_address} only; "
            f"set bindAddress to 0.0.0.0 or to that address"
        )
    if bound and not ipaddress.ip_address(bound).is_loopback and ipaddress.ip_address(told).is_loopback:
        raise ConfigError(f"brokerIP1 = {broker_ip} cannot be reached: the broker listens on {bind_address} only")
    return told


def resolved(key: str, host: str, world: World) -> str:
    """Return the IP of a host name or address. Raises `ConfigError` with the key."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return world.resolve(host)
    except OSError as error:
        raise ConfigError(f"{key} = {host} is not a valid address: {error}") from None


def host_port(ip: str, port: int) -> str:
    """Format `ip:port` as RocketMQ does."""
    return f"{ip}:{port}"
