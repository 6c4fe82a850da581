"""The front ends of a broker: one row for each port that clients connect to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from bolide.node.ports.daemon_port import DaemonPort
from bolide.remoting.request_routes import Row
from bolide.transport.server import Owner

Codec: TypeAlias = Callable[[Owner], Callable[[], Any]]
"""Returns the factory for the protocols of connections (`BoundPort.serve`). They decode what arrives, and pass commands
to the owner."""


class FrontEnd(NamedTuple):
    """One way into a broker."""

    port: DaemonPort
    codec: Codec
    """For remoting: `transport.server.accepting` with the limits of the settings, TLS and trusted proxies."""
    serves: Callable[[Row[Any, Any]], bool]
    """Whether it serves the request code of a row."""
