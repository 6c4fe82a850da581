"""TLS of connections from Spark: options with the names of a daemon's settings (Java's tls.enable and tls.client.*).

They are sent to executors as text. Each host reads the files of keys and certificates itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bolide.spark.declared import option, options_in, read_fields
from bolide.spark.errors import OptionError
from bolide.spark.option_values import as_it_is, true_or_false
from bolide.transport.tls_contexts import client_context

ENABLE: Final = "tlsEnable"
AUTH_SERVER: Final = "tlsClientAuthServer"
CHECK_NAME: Final = "tlsClientCheckName"
TRUST: Final = "tlsClientTrustCertPath"
CERT: Final = "tlsClientCertPath"
KEY: Final = "tlsClientKeyPath"
PASSWORD: Final = "tlsClientKeyPassword"
_HEADING: Final = "TLS"
_SHOWN_TO_SERVERS: Final = "the client's certificate, sent to servers that request it"


@dataclass(frozen=True)
class Tls:
    """TLS options of connections. TLS is disabled by default."""

    enable: bool = option(_HEADING, "use TLS 1.2 or 1.3", true_or_false, "false", name=ENABLE)
    auth_server: bool = option(
        _HEADING,
        "verify the server's certificate; otherwise any certificate is accepted, as by Java's clients",
        true_or_false,
        "false",
        name=AUTH_SERVER,
    )
    trust_cert_path: str = option(
        _HEADING, "PEM file of the trusted authorities", as_it_is, absent="", shown="this machine's", name=TRUST
    )
    check_name: bool = option(
        _HEADING,
        "compare the name in the certificate with the address; routes contain addresses, so certificates must contain "
        "them",
        true_or_false,
        "false",
        name=CHECK_NAME,
    )
    cert_path: str = option(_HEADING, _SHOWN_TO_SERVERS, as_it_is, absent="", shown="", name=CERT)
    key_path: str = option(_HEADING, _SHOWN_TO_SERVERS, as_it_is, absent="", shown="", name=KEY)
    key_password: str = option(_HEADING, _SHOWN_TO_SERVERS, as_it_is, absent="", shown="", name=PASSWORD)

    def context(self) -> ssl.SSLContext | None:
        """Return the SSL context, which is created once per process, or None without TLS. Raises `ConfigError` if a
        file is missing or invalid."""
        return _context(self) if self.enable else None

    def __repr__(self) -> str:
        return f"Tls(enable={self.enable}, auth_server={self.auth_server})"  # without the password


@lru_cache(maxsize=8)
def _context(tls: Tls) -> ssl.SSLContext:
    return client_context(
        tls.auth_server, tls.trust_cert_path, tls.cert_path, tls.key_path, tls.key_password, tls.check_name
    )


def read_tls(given: Mapping[str, str]) -> Tls:
    """Parse the TLS options of a read or write, with names in lower case. Raises `OptionError` if they are invalid."""
    tls = read_fields(Tls, given)
    if not tls.enable:
        idle = [one.name for one in options_in(Tls) if one.name != ENABLE and one.name.lower() in given]
        if idle:
            raise OptionError(f"option {idle[0]} has no effect without {ENABLE}: set {ENABLE} to true, or remove it")
        return Tls()
    if not tls.auth_server:
        for name in (TRUST, CHECK_NAME):
            if name.lower() in given:
                raise OptionError(f"option {name} has no effect without {AUTH_SERVER}: set {AUTH_SERVER} to true")
    if (CERT.lower() in given) != (KEY.lower() in given):
        raise OptionError(f"options {CERT} and {KEY} go together: a certificate and its private key")
    return tls
