"""Logs each rejected request, so that operators see which clients fail and why.

Error responses of normal operation (a pull without result, an offset not stored yet) are not logged: the route of a
request code lists them. Lines are limited per second. The rest is counted, and the count is logged.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.remoting import codes
from bolide.remoting.codec import Response
from bolide.remoting.command import Command

LINES_A_SECOND: Final = 100
LONGEST_REMARK: Final = 200
"""Maximum length of a logged remark. A remark may quote the request."""


class Refusals:
    """Logs the rejected requests of one node."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._untold = 0

    def note(self, remote: str, request: Command, response: Response, now: int) -> None:
        """Log a rejected request. `remote`: address of the client; `now`: ms since the epoch."""
        second = now // 1000
        if second != self._second:
            if self._untold:
                self._log.warning("rejected %d more requests", self._untold)
            self._second, self._lines, self._untold = second, 0, 0
        if self._lines >= LINES_A_SECOND:
            self._untold += 1
            return
        self._lines += 1
        self._log.info(
            "rejected request %s of %s with %s: %s",
            codes.request_name(request.code),
            remote,
            codes.response_name(response.code),
            one_line(response.remark or ""),
        )


def one_line(text: str) -> str:
    """Return the start of a text from a peer, without characters that could start a new line."""
    shown = text[:LONGEST_REMARK] + ("..." if len(text) > LONGEST_REMARK else "")
    return "".join(char if char.isprintable() else "?" for char in shown)
