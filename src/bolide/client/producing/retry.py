"""Retry: when and where a producer resends a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from bolide.client.messages.checked import ANY, FROM_ONE, SECONDS, documented
from bolide.errors import ArgumentError


@documented
@dataclass(frozen=True, kw_only=True)
class Retry:
    """The retries of a producer's sends: ``Producer("group", retry=Retry(attempts=1))``.

    All tries end with the `timeout` of the message. A message that is bound to a queue is retried at that queue, each
    time after a pause. A message that is sent without requesting a response is tried once. Raises `ArgumentError` if a
    value is invalid.
    """

    attempts: Annotated[
        int, FROM_ONE("Tries without a pause, each at another broker if there is one. 1: a message is tried once.")
    ] = 3
    backoff: Annotated[
        float, SECONDS("Pause before each later try, while the failure may pass. It doubles, up to `max_backoff`.")
    ] = 0.05
    max_backoff: Annotated[float, SECONDS("Longest pause between two tries.")] = 1.0
    when_not_safe: Annotated[
        bool,
        ANY("Send a message that was stored, but not flushed or replicated in time, to another broker as well."),
    ] = False
    latency_faults: Annotated[bool, ANY("Avoid slow and failing brokers for a while.")] = False

    def __post_init__(self) -> None:
        if self.backoff > self.max_backoff:
            raise ArgumentError(
                f"backoff is {self.backoff:g} s, longer than max_backoff ({self.max_backoff:g} s): give a shorter one",
                "backoff",
            )
