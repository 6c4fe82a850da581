"""TLS of replication connections (`haTlsEnable`). RocketMQ has no such setting."""

from __future__ import annotations

from functools import partial

from bolide.broker.options.composed import BrokerOptions
from bolide.transport.tls_contexts import RenewedContext, client_context, server_context


def serving_context(options: BrokerOptions) -> RenewedContext | None:
    """Return the TLS context for slaves, or None if TLS is off or this broker never serves slaves. Raises
    `ConfigError`."""
    if not (options.replication.ha_tls_enable and options.may_lead):
        return None
    tls = options.tls
    paths = cert, key, trust = tls.tls_cert_path, tls.tls_key_path, tls.tls_trust_cert_path
    return RenewedContext(partial(server_context, cert, key, tls.tls_key_password, trust, "require"), paths)


def following_context(options: BrokerOptions) -> RenewedContext | None:
    """Return the TLS context for a master, or None if TLS is off or this broker never replicates. Raises
    `ConfigError`."""
    if not (options.replication.ha_tls_enable and options.may_follow):
        return None
    tls = options.tls
    paths = (tls.tls_client_trust_cert_path, tls.tls_client_cert_path, tls.tls_client_key_path)
    return RenewedContext(partial(client_context, True, *paths, tls.tls_client_key_password), paths)
