"""Processor time of this process and of all its descendants, for tests that start servers, JVMs and programs."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

PROC = Path("/proc")
LONG_S = 0.5
"""Minimum duration of a phase before a look at the running processes, which opens one file per process."""
REAPED_S = 0.05
"""Processor time of reaped children that also requires a look: the sum of the last look still includes them."""


class ProcessorTime:
    """Processor seconds since the last question."""

    def __init__(self) -> None:
        self._reaped = 0.0
        self._running = 0.0
        self._last = self._total(look=True)

    def since_last(self, took: float) -> float:
        """Return the processor seconds since the last call. `took` is the clock time since then, in seconds."""
        now = self._total(look=took >= LONG_S)
        spent, self._last = now - self._last, now
        return spent

    def _total(self, *, look: bool) -> float:
        spent = os.times()
        reaped = spent.children_user + spent.children_system
        if look or reaped - self._reaped >= REAPED_S:
            self._running = running_descendants(os.getpid())
        self._reaped = reaped
        return spent.user + spent.system + reaped + self._running


def running_descendants(process: int) -> float:
    """Return the processor seconds of all running descendants and of the children they have reaped.

    Returns 0 on a system without /proc.
    """
    children: dict[int, list[int]] = defaultdict(list)
    spent: dict[int, float] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        try:
            text = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        fields = text[text.rindex(")") + 2 :].split()  # its name, before that, may contain anything
        number = int(entry.parent.name)
        children[int(fields[1])].append(number)
        spent[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, open_ = 0.0, children[process]
    while open_:
        child = open_.pop()
        total += spent[child]
        open_ += children[child]
    return total
