"""The options of consumers that fetch and share queues, each declared once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.membership import model_name
from bolide.client.consuming.message_filter import FilterMessageHook, check_filters
from bolide.client.consuming.queue_listener import QueueListener
from bolide.client.consuming.strategies import Strategy
from bolide.client.messages.arguments import check_count
from bolide.client.messages.checked import ANY, FROM_ONE, FROM_ONE_OR_OFF, SECONDS, SECONDS_OR_ZERO, Allowed
from bolide.client.messages.codec import CodecChoice
from bolide.client.messages.start_from import StartFrom
from bolide.client.tracing.interceptor import Interceptor

MAX_PULL_BATCH: Final = 1024
"""Maximum number of messages per pull, as in RocketMQ's client."""


def _model(name: str, value: str) -> str:
    model_name(value)  # also accepts upper case
    return value


MODEL: Final = Allowed('`"clustering"`, `"broadcasting"`', _model)
BATCH: Final = Allowed("1 to 1024 messages", partial(check_count, least=1, most=MAX_PULL_BATCH))
FILTERS: Final = Allowed("functions of a message", lambda name, value: check_filters(value))

Model = Annotated[Literal["clustering", "broadcasting"], MODEL("The members share the queues, or each reads all.")]
Start = Annotated[StartFrom, ANY("Where a group without offsets starts.", '`"first"`, `"last"`, a `Moment`')]
StrategyChoice = Annotated[
    str | Strategy,
    ANY(
        "Which member reads which queue; the same for all members.",
        '`"AVG"`, `"AVG_BY_CIRCLE"`, `"CONSISTENT_HASH"`, a plug-in\'s name, a `Strategy`',
    ),
]
PullBatch = Annotated[int, BATCH("Maximum number of messages per pull. A broker returns at most its own limit (32).")]
MaxCached = Annotated[
    int,
    FROM_ONE("Fetched and unconsumed messages per queue. At this limit the consumer stops fetching.", "messages"),
]
MaxCachedBytes = Annotated[int, FROM_ONE("`max_cached` in bytes of bodies.", "bytes")]
MaxSpan = Annotated[
    int,
    FROM_ONE("Distance between the first and the last fetched message of a queue not consumed.", "offsets"),
]
MaxCachedForTopic = Annotated[
    int,
    FROM_ONE_OR_OFF("`max_cached` for all queues of a topic together (Java's pullThresholdForTopic).", "messages"),
]
MaxCachedBytesForTopic = Annotated[
    int, FROM_ONE_OR_OFF("`max_cached_bytes` for all queues of a topic together.", "bytes")
]
PullInterval = Annotated[float, SECONDS_OR_ZERO("Pause between pulls that bring messages.")]
Suspend = Annotated[float, SECONDS("Time that a pull may wait at its broker for messages.")]
ConsumerCodec = Annotated[
    CodecChoice, ANY("Makes the `value` of a message out of its body.", '`"json"`, a type, a `Codec`, None')
]
ConsumerInterceptors = Annotated[
    tuple[Interceptor, ...], ANY("Called around each batch that is consumed.", "`Interceptor` objects")
]
Trace = Annotated[bool, ANY("Send a message trace of each message, as RocketMQ's clients do.")]
OffsetFolder = Annotated[
    Path | None,
    ANY(
        "Folder for the offsets of a broadcasting consumer; by default RocketMQ's folder in the home directory.",
        "a `Path`",
    ),
]
OffsetStoreChoice = Annotated[
    OffsetStore | None,
    ANY("Keeps the offsets instead of the brokers, for example in a database.", "an `OffsetStore`"),
]
QueueListenerChoice = Annotated[
    QueueListener | None, ANY("Called when queues are assigned and revoked.", "a `QueueListener`")
]
Filters = Annotated[
    tuple[FilterMessageHook, ...], FILTERS("Drop a message before it is delivered if one of them returns False.")
]
