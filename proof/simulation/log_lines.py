"""What simulated processes log."""

from __future__ import annotations

import logging
import re
from typing import Final

from proof.simulation.rare_places import RarePlaces
from proof.simulation.scheduler import Scheduler

SAID: Final = 500


class IntoTrace(logging.Handler):
    """Notes each record as a line of the trace."""

    def __init__(self, scheduler: Scheduler, said: dict[str, str], rare: RarePlaces) -> None:
        super().__init__()
        self._rare = rare
        self._scheduler = scheduler
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        scheduler, process = self._scheduler, self._scheduler.running
        if process is not None and not process.alive:
            return  # a killed process logs nothing, and its tasks end in no fixed order
        name = process.name if process is not None else "-"
        if record.levelno >= logging.WARNING:
            text = f"{name}: {record.getMessage()}"
            self._rare.logged(f"{name} {process.number if process is not None else 0}", record.getMessage())
            kind = f"{name}: " + re.sub(r"\d+", "0", record.getMessage())
            self._said.pop(kind, None)
            self._said[kind] = text
            if len(self._said) > SAID:
                del self._said[next(iter(self._said))]
        scheduler.trace.note(scheduler.now, name, "log", f"{record.levelname} {record.name}: {record.getMessage()}")
