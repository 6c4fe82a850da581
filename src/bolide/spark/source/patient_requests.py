"""Retries requests of the driver, because an error that a stream reader raises ends the query."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting.command import Command
from bolide.remoting.signature import sign_request
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.source.connection import ClusterAccess
from bolide.transport.blocking import ClientConnection, ConnectionPool

T = TypeVar("T")

ATTEMPTS: Final = 3
PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 2.0


def _nothing() -> None:
    """Do nothing. Default of the callbacks."""


class PatientRequests:
    """Sends requests to the first responsive address. Opens connections at their first use, and keeps them until
    `close`."""

    def __init__(self, options: ClusterAccess, pause_s: float) -> None:
        """Waits `pause_s` seconds after the first round without a response."""
        self._pause_s = pause_s
        self._pool = connections(options)

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def retry(
        self,
        what: str,
        addresses: Callable[[], tuple[str, ...]],
        ask: Callable[[ClientConnection], T],
        patience: float,
        failed: Callable[[], None] = _nothing,
        next_round: Callable[[], None] = _nothing,
    ) -> T:
        """Return the first response, trying all addresses in rounds for `patience` seconds.

        Calls `failed` after an address did not respond, and `next_round` before each round but the first. Raises
        `ClusterUnavailable` if none responds in time.
        """
        begin = time.monotonic()
        last: BolideError | None = None
        rounds = 0
        while True:
            for address in addresses():
                try:
                    return ask(self._pool.get(address))
                except (ConnectionLost, RequestTimeout) as error:
                    last = error
                    self._pool.drop(address)
                    failed()
            rounds += 1
            if rounds >= ATTEMPTS and time.monotonic() - begin >= patience:
                break
            time.sleep(min(self._pause_s * rounds, MAX_PAUSE_S))
            next_round()
        raise ClusterUnavailable(
            f"{what} at {', '.join(addresses())} did not respond in {rounds} rounds: {last}; check that it runs, and "
            "the address"
        )


def connections(options: ClusterAccess) -> ConnectionPool:
    """Return an empty pool of connections with these options. Raises `ConfigError` if a TLS file is missing."""
    return ConnectionPool(ssl=options.tls.context(), connect_timeout=options.request_timeout_ms / 1000)


def signed(command: Command, options: ClusterAccess) -> Command:
    """Return the command, signed if the options have an access key."""
    if options.access_key:
        sign_request(command.ext(), command.body, options.access_key, options.secret_key, code=command.code)
    return command
