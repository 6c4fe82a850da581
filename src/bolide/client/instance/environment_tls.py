"""TLS from environment variables, for clients without `ssl`: the command line, and programs that do not configure it.

The variables correspond to a broker's settings (`tlsEnable`, `tlsClient…`): Java's tls.enable and tls.client.*.
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
AUTH_SERVER: Final = _CLIENT + "AUTH_SERVER"
FILES: Final = {
    "tlsClientTrustCertPath": _CLIENT + "TRUST_CERT_PATH",
    "tlsClientCertPath": _CLIENT + "CERT_PATH",
    "tlsClientKeyPath": _CLIENT + "KEY_PATH",
    "tlsClientKeyPassword": _CLIENT + "KEY_PASSWORD",
}
"""Settings of a broker and the corresponding variables, in the order of `client_context`'s arguments."""


def environment_ssl() -> ssl.SSLContext | None:
    """Return the context for `BOLIDE_TLS_ENABLE=true`, or None without it. Raises `ConfigError`.

    Returns the same object for the same variables, so that clients with equal options share connections.
    """
    if not _flag(ENABLE):
        return None
    return _context(_flag(AUTH_SERVER), *(os.environ.get(variable, "") for variable in FILES.values()))


def environment_settings() -> dict[str, str]:
    """Like `environment_ssl`, but return a broker's settings, for
    code that reads settings as text. Raises `ConfigError`."""
    if not _flag(ENABLE):
        return {}
    checked = _flag(AUTH_SERVER)
    given = {key: os.environ[variable] for key, variable in FILES.items() if os.environ.get(variable)}
    if not checked:
        given.pop("tlsClientTrustCertPath", None)  # peers are not verified
    return {"tlsEnable": "true", "tlsClientAuthServer": str(checked).lower(), **given}


@lru_cache(maxsize=8)
def _context(auth_server: bool, trust: str, cert: str, key: str, password: str) -> ssl.SSLContext:
    return client_context(auth_server, trust, cert, key, password)


def _flag(name: str) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"the variable {name} is {text!r}: it must be true or false")
    return text == "true"
