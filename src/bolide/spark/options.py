"""Options of `format("rocketmq")`, read once and checked before anything is asked of a cluster.

Names follow Spark's Kafka source where the meaning is the same. An unknown option is refused, with the known ones:
a misspelt limit that is silently ignored costs more than an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bolide.spark.errors import OptionError
from bolide.spark.queues import Offsets, parse_offsets

DEFAULT_GROUP: Final = "bolide-spark"
_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})


@dataclass(frozen=True)
class Position:
    """Where reading begins or ends: a kind, and what the kind needs."""

    kind: str
    """earliest, latest, timestamp, offsets or group."""
    timestamp: int = 0
    """ms since the epoch, for kind timestamp."""
    offsets: tuple[tuple[Any, int], ...] = ()
    """(queue, offset) pairs, for kind offsets."""

    def given(self) -> Offsets:
        return dict(self.offsets)


@dataclass(frozen=True)
class SourceOptions:
    """Everything a read or a write needs to know; plain data, shipped to executors."""

    namesrv: tuple[str, ...]
    topics: tuple[str, ...]
    group: str
    starting: Position
    ending: Position
    max_offsets_per_trigger: int
    """0: no limit."""
    max_records_per_partition: int
    """Rows one task reads at most; a longer range is split over several tasks. 0: a queue is never split."""
    fail_on_data_loss: bool
    tags: str
    pull_batch_size: int
    pulls_in_flight: int
    request_timeout_ms: int
    access_key: str
    secret_key: str
    topic: str
    """Of a write: where rows without a topic column go."""


def whole_number(least: int, most: int) -> Callable[[str, str], int]:
    """A reader of options that are whole numbers in these bounds; raises OptionError."""

    def parse(name: str, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise OptionError(f"option {name} must be a whole number from {least} to {most}, not {text!r}")
        return value

    return parse


def true_or_false(name: str, text: str) -> bool:
    """An option that is a switch; raises OptionError."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise OptionError(f"option {name} must be true or false, not {text!r}")


def comma_names(name: str, text: str) -> tuple[str, ...]:
    """An option that lists names; raises OptionError when there is none."""
    names = tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())
    if not names:
        raise OptionError(f"option {name} is empty; give at least one name")
    return names


KNOWN: Final = {
    name.lower(): name
    for name in (
        "namesrv", "subscribe", "topic", "path", "group", "startingOffsets", "startingTimestamp", "endingOffsets",
        "endingTimestamp", "maxOffsetsPerTrigger", "maxRecordsPerPartition", "failOnDataLoss", "tags", "pullBatchSize",
        "pullsInFlight", "requestTimeoutMs", "accessKey", "secretKey",
    )
}  # fmt: skip


def read_options(options: Mapping[str, str], streaming: bool = False) -> SourceOptions:
    """Check and convert the options of a read. Raises OptionError."""
    given = _known(options)
    if streaming and ("endingoffsets" in given or "endingtimestamp" in given):
        raise OptionError("a stream has no end: remove endingOffsets and endingTimestamp, or use a batch read")
    subscribe = given.get("subscribe") or given.get("topic") or given.get("path")
    if not subscribe:
        raise OptionError('no topic is given: set option subscribe, e.g. .option("subscribe", "flights")')
    return _build(given, comma_names("subscribe", subscribe), streaming)


def write_options(options: Mapping[str, str]) -> SourceOptions:
    """Check and convert the options of a write. Raises OptionError."""
    given = _known(options)
    topic = given.get("topic") or given.get("path") or ""
    return _build(given, (topic,) if topic else (), False)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in KNOWN:
            raise OptionError(
                f"option {name} is unknown to format rocketmq; known are {', '.join(sorted(KNOWN.values()))}"
            )
    return given


def _build(given: dict[str, str], topics: tuple[str, ...], streaming: bool) -> SourceOptions:
    namesrv = given.get("namesrv")
    if not namesrv:
        raise OptionError('no name server is given: set option namesrv, e.g. .option("namesrv", "127.0.0.1:9876")')
    if ("accesskey" in given) != ("secretkey" in given):
        raise OptionError("options accessKey and secretKey go together: set both or neither")
    number = whole_number(1, 1 << 31)
    return SourceOptions(
        namesrv=comma_names("namesrv", namesrv),
        topics=topics,
        group=given.get("group", DEFAULT_GROUP),
        starting=_position(given, "starting", "latest" if streaming else "earliest"),
        ending=_position(given, "ending", "latest"),
        max_offsets_per_trigger=_optional(given, "maxOffsetsPerTrigger", number),
        max_records_per_partition=_optional(given, "maxRecordsPerPartition", number),
        fail_on_data_loss=true_or_false("failOnDataLoss", given.get("failondataloss", "true")),
        tags=given.get("tags", "*"),
        pull_batch_size=whole_number(1, 65_536)("pullBatchSize", given.get("pullbatchsize", "32")),
        pulls_in_flight=whole_number(1, 256)("pullsInFlight", given.get("pullsinflight", "16")),
        request_timeout_ms=whole_number(100, 600_000)("requestTimeoutMs", given.get("requesttimeoutms", "10000")),
        access_key=given.get("accesskey", ""),
        secret_key=given.get("secretkey", ""),
        topic=topics[0] if topics else "",
    )


def _optional(given: dict[str, str], name: str, parse: Callable[[str, str], int]) -> int:
    text = given.get(name.lower())
    return 0 if text is None else parse(name, text)


def _position(given: dict[str, str], which: str, default: str) -> Position:
    offsets = given.get(f"{which}offsets")
    timestamp = given.get(f"{which}timestamp")
    if offsets is not None and timestamp is not None:
        raise OptionError(f"{which}Offsets and {which}Timestamp exclude each other: keep one")
    if timestamp is not None:
        return Position("timestamp", timestamp=whole_number(0, 1 << 62)(f"{which}Timestamp", timestamp))
    text = (offsets if offsets is not None else default).strip()
    if text in ("earliest", "latest", "group"):
        if which == "ending" and text == "earliest":
            raise OptionError("endingOffsets cannot be earliest: nothing would be read")
        return Position(text)
    if not text.startswith("{"):
        raise OptionError(f"{which}Offsets must be earliest, latest, group or JSON offsets, not {text[:40]!r}")
    parsed = parse_offsets(text, f"{which}Offsets")
    return Position("offsets", offsets=tuple(sorted(parsed.items())))
