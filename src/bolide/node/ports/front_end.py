"""The front ends of a broker: one per port that clients connect to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from bolide.node.ports.daemon_port import DaemonPort
from bolide.remoting.request_routes import Row
from bolide.transport.server import Owner

Codec: TypeAlias = Callable[[Owner], Callable[[], Any]]
"""Returns a protocol factory for `BoundPort.serve`. The protocols decode received bytes, and pass commands to the
handler."""


class FrontEnd(NamedTuple):
    """A port of a broker, with its protocol and the request codes that it serves."""

    port: DaemonPort
    codec: Codec
    """For remoting: `transport.server.accepting` with the limits of the settings, TLS and trusted proxies."""
    serves: Callable[[Row[Any, Any]], bool]
    """Returns whether the port serves the request code of a route."""
