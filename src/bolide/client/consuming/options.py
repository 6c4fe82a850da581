"""The options of consumers that fetch and share queues, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.membership import model_name
from bolide.client.consuming.message_filter import FilterMessageHook, check_filters
from bolide.client.consuming.queue_listener import QueueListener
from bolide.client.consuming.strategies import Strategy
from bolide.client.messages.checked import ANY, SECONDS, Allowed
from bolide.client.messages.codec import CodecChoice
from bolide.client.messages.start_from import StartFrom
from bolide.client.tracing.interceptor import Interceptor


def _model(name: str, value: str) -> str:
    model_name(value)  # also accepts upper case
    return value


MODEL: Final = Allowed('`"clustering"`, `"broadcasting"`', _model)
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
Flow = Annotated[FlowControl, ANY("How much is fetched ahead.", "a `FlowControl`")]
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
