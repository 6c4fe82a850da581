"""FlowControl: limits on the messages that a consumer fetches ahead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bolide.client.messages.arguments import check_count
from bolide.client.messages.checked import FROM_ONE, FROM_ONE_OR_OFF, SECONDS_OR_ZERO, Allowed, documented

MAX_PULL_BATCH: Final = 1024
"""Maximum number of messages per pull, as in RocketMQ's client."""
BATCH: Final = Allowed("1 to 1024 messages", partial(check_count, least=1, most=MAX_PULL_BATCH))


@documented
@dataclass(frozen=True, kw_only=True)
class FlowControl:
    """Limits on messages fetched but not yet consumed: ``PushConsumer("group", flow=FlowControl(max_cached=100))``.

    A queue is not pulled while one of the limits is reached. Raises `ArgumentError` if a value is invalid.
    """

    max_cached: Annotated[int, FROM_ONE("Fetched and unconsumed messages per queue.", "messages")] = 1000
    max_cached_bytes: Annotated[int, FROM_ONE("`max_cached` in bytes of bodies.", "bytes")] = 100 * 1024 * 1024
    max_span: Annotated[
        int,
        FROM_ONE("Distance between the first and the last fetched message of a queue not consumed.", "offsets"),
    ] = 2000
    max_cached_for_topic: Annotated[
        int,
        FROM_ONE_OR_OFF("`max_cached` for all queues of a topic together (Java's pullThresholdForTopic).", "messages"),
    ] = -1
    max_cached_bytes_for_topic: Annotated[
        int, FROM_ONE_OR_OFF("`max_cached_bytes` for all queues of a topic together.", "bytes")
    ] = -1
    pull_batch: Annotated[
        int,
        BATCH(
            "Maximum number of messages per pull, but above 32 at most `max_cached`. RocketMQ's broker returns at most"
            " its own limit (32)."
        ),
    ] = 256
    pull_interval: Annotated[float, SECONDS_OR_ZERO("Pause between pulls that bring messages.")] = 0.0


DEFAULT_FLOW: Final = FlowControl()
