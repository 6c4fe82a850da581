"""A broker's services with delayed delivery, driven by the time that a test passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bolide.broker.delay.delay_levels import DelayService
from bolide.layout.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from bolide.layout.record import Record
from tests.broker.parts import NOW, Parts, send_request, text

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class Delaying(Parts):
    """The parts with the delay service and a clock."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.start_service()

    def start_service(self, stored: bytes = b"", now: int = NOW) -> None:
        self.service = DelayService(LEVELS, self.writer, self.effects, now)
        self.damaged = self.service.damaged
        if stored:
            self.service.load(stored)

    def delayed(self, level: int, body: bytes = b"late", now: int = NOW, **properties: str) -> None:
        sent = text(DELAY=str(level), TAGS="a", KEYS="k", UNIQ_KEY="U", **properties)
        assert self.answer(send_request(body=body, properties=sent, e="2", h="4"), now).code == 0

    def tick(self, now: int, budget: int = 1000) -> None:
        self.service.tick(now, budget)
        self.settle()

    def retry(self, now: int) -> None:
        """Try every damaged message again that is due."""
        while (due := self.damaged.due(now)) is not None and due <= now:
            self.damaged.tick(now, 1)
            self.settle()

    def delivered(self) -> list[Record]:
        return self.records("T", 2)

    def flush(self) -> None:
        """What was written reaches the disk."""
        self.store.log.sync_all()

    def progress(self) -> dict[str, int]:
        table: dict[str, int] = json.loads(self.service.encode())["offsetTable"]
        return table
