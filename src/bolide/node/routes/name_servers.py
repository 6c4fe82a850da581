"""Name servers of a broker: checks the configured addresses, and creates the TLS context."""

from __future__ import annotations

from functools import partial

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.transport.address import split_addresses
from bolide.transport.tls_contexts import RenewedContext, client_context


def check_name_servers(options: BrokerOptions) -> None:
    """Raise `ConfigError` if namesrvAddr contains an invalid address."""
    if options.registration.namesrv_addr.strip():
        try:
            split_addresses(options.registration.namesrv_addr)
        except ConfigError as error:
            raise ConfigError(f"namesrvAddr = {options.registration.namesrv_addr!r} is not allowed: {error}") from None


def name_server_context(options: BrokerOptions) -> RenewedContext | None:
    """Return the TLS context for name servers, or None without TLS. Raises `ConfigError`."""
    tls = options.tls
    wanted = tls.tls_enable == "true" or (tls.tls_enable == "" and tls.tls_mode == "enforcing")
    if not wanted:
        return None
    paths = (tls.tls_client_trust_cert_path, tls.tls_client_cert_path, tls.tls_client_key_path)
    make = partial(client_context, tls.tls_client_auth_server, *paths, tls.tls_client_key_password)
    return RenewedContext(make, paths)
