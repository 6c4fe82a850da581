"""Parses the addresses of etcd members in `controllerStore`, and configures TLS to them."""

from __future__ import annotations

from typing import Final

from bolide.controller.options import ControllerOptions
from bolide.errors import ConfigError
from bolide.node.controller.http_exchange import Endpoint
from bolide.transport.tls_contexts import client_context

SCHEMES: Final = ("http://", "https://")


def endpoints(place: str, options: ControllerOptions) -> list[Endpoint]:
    """Return the members in `URL,URL`. Raises `ConfigError` unless each is `http://HOST:PORT` or
    `https://HOST:PORT`."""
    tls = None
    if "https://" in place:
        tls = client_context(
            options.tls_client_auth_server,
            options.tls_client_trust_cert_path,
            options.tls_client_cert_path,
            options.tls_client_key_path,
            options.tls_client_key_password,
            check_name=True,
        )
    found: list[Endpoint] = []
    for text in place.split(","):
        url = text.strip().rstrip("/")
        scheme = next((each for each in SCHEMES if url.startswith(each)), "")
        host, colon, port = url.removeprefix(scheme).rpartition(":")
        if not scheme or not colon or not host or "@" in host or "/" in host or not port.isdecimal():
            raise ConfigError(
                f"controllerStore: {text.strip()!r} is not the address of an etcd member; write http://HOST:2379 or "
                "https://HOST:2379, without user and password"
            )
        if not 0 < int(port) < 65536:
            raise ConfigError(f"controllerStore: {text.strip()!r} has no port of 1 to 65535")
        found.append(Endpoint(host.strip("[]"), int(port), tls if scheme == "https://" else None))
    return found
