"""The rejections of one group member by brokers, and the log line that repeats them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.errors import ResponseError, refusal_of
from bolide.errors import BolideError

log = logging.getLogger("bolide.client")

AGAIN: Final = 300.0
"""Seconds between two log lines about a member that brokers reject."""


class GroupRefusals:
    """Stores why brokers reject the group, by topic. The rejection of its pulls is stored by each queue."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._of_topics: dict[str, ResponseError] = {}
        self._next = 0.0

    def note(self, topic: str, error: BolideError) -> None:
        """Store an error if brokers repeat it until someone fixes its cause."""
        refusal = refusal_of(error)
        if refusal is not None:
            self._of_topics[topic] = refusal

    def forget(self, topic: str) -> None:
        """Remove the error of a topic."""
        self._of_topics.pop(topic, None)

    def of_topic(self, topic: str) -> ResponseError | None:
        """Return the error of a topic, or None."""
        return self._of_topics.get(topic)

    @property
    def of_topics(self) -> ResponseError | None:
        """The error of one of the topics, or None."""
        return next(iter(self._of_topics.values()), None)

    def report(self, refusal: ResponseError | None, queues: Iterable[ProcessQueue], now: float) -> None:
        """Log `refusal`, at most every `AGAIN` seconds. `now` is the time of the loop."""
        if refusal is None or now < self._next:
            return
        self._next = now + AGAIN
        held = list(queues)
        log.warning(
            "brokers reject %d of the %d queues of consumer %s: %s; this is logged every %d minutes",
            sum(each.refusal is not None for each in held), len(held), self._group, refusal, AGAIN // 60,
        )  # fmt: skip
