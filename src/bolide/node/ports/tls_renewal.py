"""Reloads certificates, keys and trusted certificates of a running server when their files change."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bolide.errors import ConfigError
from bolide.transport.tls_contexts import RenewedContext
from bolide.world.contract import World

LOOK_S: Final = 10.0
"""Seconds between two checks of the files."""


class TlsRenewal:
    """Checks the files of its contexts off the loop. Unusable files are logged once, and the old contexts stay in
    use."""

    def __init__(self, world: World, log: logging.Logger) -> None:
        self._log = log
        self._in_thread = world.in_thread
        self._contexts: list[RenewedContext] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, context: RenewedContext | None) -> None:
        """Add a context to check. None (no TLS) is ignored."""
        if context is not None:
            self._contexts.append(context)

    def ends(self) -> dict[str, int]:
        """Return the expiry times of the certificates in use, in ms since 1970, by path."""
        return {path: end for context in list(self._contexts) for path, end in list(context.ends.items())}

    def start(self) -> None:
        """Start periodic checks, if there is a context."""
        if self._contexts:
            self._task = asyncio.create_task(self._keep())

    def stop(self) -> None:
        """Stop periodic checks. Does not wait for a running check."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def look(self) -> None:
        """Check the files now."""
        for context in self._contexts:
            try:
                if await self._in_thread(context.look):
                    self._log.info("the TLS files have changed: new connections use them")
            except ConfigError as error:
                self._log.error("keeping the old TLS files, because the changed ones are invalid: %s", error)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()
