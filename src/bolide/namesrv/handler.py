"""What answers one request code."""

from __future__ import annotations

from collections.abc import Callable

from bolide.remoting.command import Command

Handler = Callable[[int, Command, int], Command]
"""(channel id, request, now in ms since the epoch) -> response. Raises BolideError for what the peer did wrong."""
