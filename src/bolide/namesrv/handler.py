"""Types of request handlers and routes of a name server (see remoting/request_routes.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from bolide.remoting.command import Command
from bolide.remoting.request_routes import Row

Handler: TypeAlias = Callable[[int, Command, int], Command]
"""(channel id, request, now in ms since the epoch) -> response. Raises `BolideError` for an invalid request."""
Routes: TypeAlias = Sequence[Row[int, Command]]
