"""Messages to send. `encoding` checks their contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from msgspec import UNSET

from bolide.client.messages.checked import ANY, NAME, documented_fields
from bolide.client.messages.moment import Moment


@documented_fields
@dataclass(slots=True)
class Message:
    """A message to send: topic, body, and the properties by which brokers and consumers select messages."""

    topic: Annotated[str, NAME("Where it goes.")]
    body: Annotated[bytes, ANY("The content. Empty with a `value`.", "1 byte to `max_body`")] = b""
    _: KW_ONLY
    tags: Annotated[str, ANY("The tag, by which consumers filter.")] = ""
    keys: Annotated[
        str | Iterable[str],
        ANY(
            "Indexed for search; one text may contain several keys, separated by spaces.", "text, or several in a list"
        ),
    ] = ""
    properties: Annotated[
        Mapping[str, str],
        ANY(
            "Headers of the application; empty values and RocketMQ's own names are rejected.",
            "32,767 bytes together",
        ),
    ] = field(default_factory=dict)
    delay_level: Annotated[
        int, ANY("Deliver later: 1 is 1 s, 18 is 2 h. Brokers may have other levels.", "0 to 18")
    ] = 0
    sharding_key: Annotated[str, ANY("Messages with the same key go to the same queue.")] = ""
    flag: Annotated[int, ANY("A number of the application.", "32 bits, signed")] = 0
    wait_stored: Annotated[bool, ANY("Whether the broker responds only after the flush.")] = True
    value: Annotated[Any, ANY("Instead of the body, for a producer with a codec.", "what the codec takes")] = UNSET
    light_queues: Annotated[Iterable[str], ANY("Light queues (LMQ) that the message enters as well.", "names")] = ()
    delay: Annotated[
        float | timedelta,
        ANY("Deliver after this time; brokers allow three days by default.", "seconds, or a timedelta"),
    ] = 0
    deliver_at: Annotated[
        Moment | None,
        ANY("Deliver at this time. One of `delay_level`, `delay` and `deliver_at`.", "a `Moment`"),
    ] = None

    @property
    def delayed(self) -> bool:
        """Whether the message has a delay level, a delay, or a delivery time."""
        return bool(self.delay_level or self.delay or self.deliver_at is not None)

    @property
    def keys_text(self) -> str:
        """The keys as one text, separated by spaces."""
        return self.keys if isinstance(self.keys, str) else " ".join(self.keys)
