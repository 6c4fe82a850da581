"""The certificate of the console, which is reloaded when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from functools import partial
from typing import Final

from bolide.errors import ConfigError
from bolide.transport.tls_contexts import RenewedContext, load_pair

log = logging.getLogger("bolide.console")

LOOK_S: Final = 10.0
"""Seconds between two checks of the files, as for the servers (`node/ports/tls_renewal.py`)."""


def console_certificate(certificate: str, key: str) -> RenewedContext:
    """Return the context of two PEM files. Raises `ConfigError` if they cannot be used."""
    return RenewedContext(partial(_context, certificate, key), (certificate, key))


def earliest_end(tls: RenewedContext | None) -> int | None:
    """Return the first expiry of the certificates in ms since 1970, or None without TLS or if it cannot be read."""
    return min(tls.ends.values(), default=None) if tls is not None else None


async def keep_current(tls: RenewedContext, seconds: float = LOOK_S) -> None:
    """Reload the files when they have changed, until cancelled. Invalid files are logged once, and the old ones stay in
    use."""
    while True:
        await asyncio.sleep(seconds)
        try:
            if await asyncio.to_thread(tls.look):
                log.info("the TLS files have changed: new connections use them")
        except ConfigError as error:
            log.error("keeping the old TLS files, because the changed ones are invalid: %s", error)


def _context(certificate: str, key: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(made, "--certificate", certificate, "--key", key, "")
    return made
