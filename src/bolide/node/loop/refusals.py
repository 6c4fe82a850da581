"""One line in the log for each request that is refused, so that an operator sees who asks for what cannot be.

Answers that belong to the ordinary course (a pull that found nothing, an offset not stored yet) are not refusals: the
row of a request code names them. A
flood of refusals must not become a flood of lines: beyond a number a second they are counted, and the count is told.
"""

from __future__ import annotations

import logging
from typing import Final

from bolide.remoting import codes
from bolide.remoting.command import Command

LINES_A_SECOND: Final = 100
LONGEST_REMARK: Final = 200
"""Characters of a remark that are written; a remark may quote what the peer sent."""


class Refusals:
    """Writes the lines of one node."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._untold = 0

    def note(self, remote: str, request: Command, response: Command, now: int) -> None:
        """Tell of a refusal. `remote`: the peer's address; `now`: ms since the epoch."""
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
    """The beginning of a text that came from a peer, without what could begin a line of its own."""
    shown = text[:LONGEST_REMARK] + ("..." if len(text) > LONGEST_REMARK else "")
    return "".join(char if char.isprintable() else "?" for char in shown)
