"""TLS settings of a broker: its certificate for clients, and its requirements for name servers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from bolide.declaration import DeclaredOptions, Section
from bolide.remoting.listening import (
    TlsCertPath,
    TlsKeyPassword,
    TlsKeyPath,
    TlsMode,
    TlsNeedClientAuth,
    TlsTrustCertPath,
)

TLS_OUT: Final = Section("TLS to name servers")


class BrokerTlsOptions(DeclaredOptions, frozen=True, kw_only=True):
    """TLS of the broker's ports, and towards name servers and masters."""

    tls_mode: TlsMode = "permissive"
    tls_cert_path: TlsCertPath = ""
    tls_key_path: TlsKeyPath = ""
    tls_key_password: TlsKeyPassword = ""
    tls_trust_cert_path: TlsTrustCertPath = ""
    tls_need_client_auth: TlsNeedClientAuth = "none"
    tls_enable: Annotated[
        Literal["", "true", "false"],
        TLS_OUT("Use TLS to name servers; empty: if tlsMode is enforcing."),
    ] = ""
    tls_client_auth_server: Annotated[
        bool, TLS_OUT("Reject a name server whose certificate no trusted authority has signed.")
    ] = False
    tls_client_trust_cert_path: Annotated[
        str, TLS_OUT("PEM certificates of the authorities trusted for name servers; empty: the system's.")
    ] = ""
    tls_client_cert_path: Annotated[
        str, TLS_OUT("PEM client certificate chain for name servers; empty: no client certificate.")
    ] = ""
    tls_client_key_path: Annotated[str, TLS_OUT("PEM private key of that certificate.")] = ""
    tls_client_key_password: Annotated[str, TLS_OUT("Password of that private key.")] = ""
