"""TLS by the environment, for clients that are given no `ssl`: the command line, and programs that know nothing of it.

The variables are those of a broker's settings (`tlsEnable`, `tlsClient…`): Java's tls.enable and tls.client.*.
"""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import Final

from bolide.errors import ConfigError
from bolide.transport.tls_contexts import client_context

ENABLE: Final = "BOLIDE_TLS_ENABLE"
_CLIENT: Final = "BOLIDE_TLS_CLIENT_"


def environment_ssl() -> ssl.SSLContext | None:
    """What `BOLIDE_TLS_ENABLE=true` asks for; None without it. Raises `ConfigError`.

    The same object for the same variables, so that clients with equal options go on sharing connections.
    """
    if not _flag(ENABLE):
        return None
    names = ("TRUST_CERT_PATH", "CERT_PATH", "KEY_PATH", "KEY_PASSWORD")
    return _context(_flag(_CLIENT + "AUTH_SERVER"), *(os.environ.get(_CLIENT + name, "") for name in names))


@lru_cache(maxsize=8)
def _context(auth_server: bool, trust: str, cert: str, key: str, password: str) -> ssl.SSLContext:
    return client_context(auth_server, trust, cert, key, password)


def _flag(name: str) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"the variable {name} is {text!r}: it must be true or false")
    return text == "true"
