"""A port that a server listens on. If it cannot be bound, the error names the setting to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bolide.errors import LocalError
from bolide.node.ports.addresses import host_port
from bolide.world.contract import BoundPort, World


class CannotListen(LocalError):
    """The port cannot be bound: another program uses it, the address is not local, or privileges are missing."""

    retriable = True


class DaemonPort:
    """Bound on creation, so that its number is known. Accepts connections after `serve`.

    `setting`: the setting that selects the port, such as `listenPort = 10911`. Raises `CannotListen`.
    """

    def __init__(self, world: World, host: str, port: int, setting: str) -> None:
        self._setting = setting
        self._place = host_port(host or "*", port)
        try:
            self._bound: BoundPort = world.bind(host, port)
        except (OSError, OverflowError) as error:
            raise self._failed(error) from error

    @property
    def number(self) -> int:
        """The port's number."""
        return self._bound.port

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections. `accepted` returns the protocol of each. Raises `CannotListen`."""
        try:
            await self._bound.serve(accepted)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Stop accepting connections. A second call does nothing."""
        self._bound.close()

    def _failed(self, error: Exception) -> CannotListen:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return CannotListen(
            f"cannot listen on {self._place} ({self._setting}): {reason.lower()}; "
            f"stop the program that uses the port, or choose another"
        )
