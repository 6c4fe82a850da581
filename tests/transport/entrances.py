"""Both ends of TLS with a self-signed certificate."""

from __future__ import annotations

import ssl
from functools import partial

from bolide.transport.protocol_detector import Ingress
from bolide.transport.tls_contexts import RenewedContext, server_context
from bolide.transport.trusted_proxies import TrustedProxies
from tests.transport.certificates import Certificate


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.cert)


def entrance_of(certificate: Certificate, mode: str = "permissive", client_auth: str = "none") -> Ingress:
    make = partial(server_context, certificate.cert, certificate.key, "", certificate.cert, client_auth)
    return Ingress(mode, RenewedContext(make, (certificate.cert, certificate.key)), TrustedProxies("127.0.0.1"))
