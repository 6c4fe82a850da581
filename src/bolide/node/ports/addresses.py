"""Which address a broker tells others, given the one it listens on: `brokerIP1`, checked before anything starts.

A client connects to what the name server says, so an address that does not lead to the listener makes a broker that
looks alive and cannot be reached; that refuses the start.
"""

from __future__ import annotations

import ipaddress

from bolide.errors import ConfigError
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

ANY = ("0.0.0.0", "::", "")


def announced_ip(bind_address: str, broker_ip: str, world: World = THE_WORLD) -> str:
    """The IP to tell clients and to store in records. Raises `ConfigError` when it cannot lead to the listener."""
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
    """The IP of a host name or address. Raises `ConfigError` naming the key."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return world.resolve(host)
    except OSError as error:
        raise ConfigError(f"{key} = {host} is not a valid address: {error}") from None


def host_port(ip: str, port: int) -> str:
    """`ip:port` as RocketMQ writes addresses."""
    return f"{ip}:{port}"
