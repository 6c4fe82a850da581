"""Which address a broker tells others, given the one it listens on: `brokerIP1`, checked before anything starts.

A client connects to what the name server says, so an address that does not lead to the listener makes a broker that
looks alive and cannot be reached; that refuses the start.
"""

from __future__ import annotations

import ipaddress
import socket

from bolide.errors import ConfigError

ANY = ("0.0.0.0", "::", "")


def announced_ip(bind_address: str, broker_ip: str) -> str:
    """The IP to tell clients and to store in records. Raises `ConfigError` when it cannot lead to the listener."""
    bound = resolved("bindAddress", bind_address) if bind_address not in ANY else ""
    if not broker_ip:
        return bound or own_ip()
    told = resolved("brokerIP1", broker_ip)
    if bound and ipaddress.ip_address(bound).is_loopback and not ipaddress.ip_address(told).is_loopback:
        raise ConfigError(
            f"brokerIP1 = {broker_ip} cannot be reached: the broker listens on {bind_address} only; "
            f"set bindAddress to 0.0.0.0 or to that address"
        )
    if bound and not ipaddress.ip_address(bound).is_loopback and ipaddress.ip_address(told).is_loopback:
        raise ConfigError(f"brokerIP1 = {broker_ip} cannot be reached: the broker listens on {bind_address} only")
    return told


def resolved(key: str, host: str) -> str:
    """The IP of a host name or address. Raises `ConfigError` naming the key."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]  # type: ignore[return-value] # the stub allows numbers for families we do not ask for
    except OSError as error:
        raise ConfigError(f"{key} = {host} is no address: {error}") from None


def own_ip() -> str:
    """An address of this machine that others may reach; loopback when it has no other. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # documentation range: choosing the route is all that happens
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def host_port(ip: str, port: int) -> str:
    """`ip:port` as RocketMQ writes addresses."""
    return f"{ip}:{port}"
