"""TLS of connections from Spark: options with the names of a daemon's settings (Java's tls.enable and tls.client.*).

They are sent to executors as text; keys and certificates are files that each machine reads itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bolide.spark.errors import OptionError
from bolide.spark.option_values import true_or_false
from bolide.transport.tls_contexts import client_context

ENABLE: Final = "tlsEnable"
AUTH_SERVER: Final = "tlsClientAuthServer"
CHECK_NAME: Final = "tlsClientCheckName"
TRUST: Final = "tlsClientTrustCertPath"
CERT: Final = "tlsClientCertPath"
KEY: Final = "tlsClientKeyPath"
PASSWORD: Final = "tlsClientKeyPassword"
TLS_OPTIONS: Final = (ENABLE, AUTH_SERVER, CHECK_NAME, TRUST, CERT, KEY, PASSWORD)


@dataclass(frozen=True)
class Tls:
    """How connections are encrypted; by default they are not."""

    enable: bool = False
    auth_server: bool = False
    check_name: bool = False
    trust_cert_path: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""

    def context(self) -> ssl.SSLContext | None:
        """The SSL context, made once per process; None for plain connections. Raises `ConfigError`."""
        return _context(self) if self.enable else None

    def __repr__(self) -> str:
        return f"Tls(enable={self.enable}, auth_server={self.auth_server})"  # never the password


@lru_cache(maxsize=8)
def _context(tls: Tls) -> ssl.SSLContext:
    return client_context(
        tls.auth_server, tls.trust_cert_path, tls.cert_path, tls.key_path, tls.key_password, tls.check_name
    )


def read_tls(given: Mapping[str, str]) -> Tls:
    """The TLS options among those of a read or a write, names in lower case. Raises OptionError."""

    def flag(name: str) -> bool:
        return true_or_false(name, given.get(name.lower(), "false"))

    if not flag(ENABLE):
        idle = [name for name in TLS_OPTIONS if name != ENABLE and name.lower() in given]
        if idle:
            raise OptionError(f"option {idle[0]} has no effect without {ENABLE}: set {ENABLE} to true, or remove it")
        return Tls()
    if not flag(AUTH_SERVER):
        for name in (TRUST, CHECK_NAME):
            if name.lower() in given:
                raise OptionError(f"option {name} has no effect without {AUTH_SERVER}: set {AUTH_SERVER} to true")
    if (CERT.lower() in given) != (KEY.lower() in given):
        raise OptionError(f"options {CERT} and {KEY} go together: a certificate and its private key")
    texts = (given.get(name.lower(), "") for name in (TRUST, CERT, KEY, PASSWORD))
    return Tls(True, flag(AUTH_SERVER), flag(CHECK_NAME), *texts)
