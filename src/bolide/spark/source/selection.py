"""Selects the queues to read: topics by name or pattern, or single queues, optionally only of some brokers and ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bolide.layout.names import is_system_topic
from bolide.spark.declared import Option
from bolide.spark.errors import OptionError
from bolide.spark.option_values import comma_names, whole_number
from bolide.spark.source.queues import Queue

ASSIGN_EXAMPLE: Final = '{"topic": {"broker": [0, 1]}}'
_HEADING: Final = "Which queues"
_NARROWED: Final = "restrict the selected queues to these brokers or queue ids"
SELECTION: Final = (
    Option("subscribe", _HEADING, 'topics, separated by commas (`topic` and `load("T")` are synonyms)'),
    Option(
        "subscribePattern",
        _HEADING,
        "a regular expression that matches whole topic names; RocketMQ's system topics are excluded, as are retry and "
        "dead letter topics unless the expression starts with `%`",
    ),
    Option("assign", _HEADING, f"single queues: `{ASSIGN_EXAMPLE}`"),
    Option("brokers", _HEADING, _NARROWED),
    Option("queueIds", _HEADING, _NARROWED),
)
TOPIC_NAMES: Final = ("topic", "path")
"""Synonyms of `subscribe`, and the topic of a write. `path` is the argument of `load` and `save`."""


@dataclass(frozen=True)
class Selection:
    """A selection of queues by one of `topics`, `pattern` and `assigned`. `brokers` and `queue_ids` may narrow it."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[Queue, ...] = ()
    brokers: tuple[str, ...] = ()
    queue_ids: tuple[int, ...] = ()

    def matching(self, names: Iterable[str], of_system: Iterable[str] = ()) -> list[str]:
        """Return the topics whose whole name matches the pattern.

        Excludes RocketMQ's internal topics, and also retry and dead letter topics unless the pattern starts with %.
        """
        hidden = set(of_system)
        return sorted(name for name in set(names) if name not in hidden and self._matches(name))

    def keeps(self, queue: Queue) -> bool:
        """Return whether the selection includes a queue."""
        named = queue.topic in self.topics if self.topics else not self.pattern or self._matches(queue.topic)
        return named and self.keeps_of_topic(queue)

    def keeps_of_topic(self, queue: Queue) -> bool:
        """Return whether the selection includes a queue, assuming that it includes its topic."""
        return (
            (not self.brokers or queue.broker in self.brokers)
            and (not self.queue_ids or queue.queue_id in self.queue_ids)
            and (not self.assigned or queue in self.assigned)
        )

    def _matches(self, topic: str) -> bool:
        return (
            re.fullmatch(self.pattern, topic) is not None
            and not is_system_topic(topic)
            and (not topic.startswith("%") or self.pattern.startswith("%"))
        )

    def __str__(self) -> str:
        if self.pattern:
            return f"pattern {self.pattern}"
        if self.assigned:
            return ", ".join(str(queue) for queue in self.assigned[:8])
        return ", ".join(self.topics)


def topic_of(given: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the value of the options `names`, which are synonyms, or "". Raises `OptionError` if they differ."""
    texts = {name: text for name in names if (text := given.get(name, "").strip())}
    if len(set(texts.values())) > 1:
        shown = " and ".join(f"{name} {text}" for name, text in texts.items())
        raise OptionError(f"options {shown} contradict each other (path is the argument of load and save): keep one")
    return next(iter(texts.values()), "")


def read_selection(given: Mapping[str, str]) -> Selection:
    """Parse the options that select queues. Raises `OptionError` if they are missing, invalid or exclude each other."""
    subscribe = topic_of(given, ("subscribe", *TOPIC_NAMES)) or None
    pattern, assign = given.get("subscribepattern"), given.get("assign")
    named = [
        name
        for name, text in (("subscribe", subscribe), ("subscribePattern", pattern), ("assign", assign))
        if text is not None
    ]
    if not named:
        raise OptionError('no topic is given: set option subscribe, e.g. .option("subscribe", "flights")')
    if len(named) > 1:
        raise OptionError(f"options {' and '.join(named)} exclude each other: keep one")
    brokers = comma_names("brokers", given["brokers"]) if "brokers" in given else ()
    queue_ids: tuple[int, ...] = ()
    if "queueids" in given:
        number = whole_number(0, 1 << 30)
        queue_ids = tuple(number("queueIds", text) for text in comma_names("queueIds", given["queueids"]))
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"option subscribePattern is not a regular expression: {error}") from None
        return Selection(pattern=pattern, brokers=brokers, queue_ids=queue_ids)
    if assign is not None:
        assigned = _assigned(assign)
        topics = tuple(sorted({queue.topic for queue in assigned}))
        return Selection(topics, assigned=assigned, brokers=brokers, queue_ids=queue_ids)
    return Selection(comma_names("subscribe", subscribe or ""), brokers=brokers, queue_ids=queue_ids)


def _assigned(text: str) -> tuple[Queue, ...]:
    found: set[Queue] = set()
    try:
        nested: Any = json.loads(text)
        for topic, brokers in nested.items():
            for broker, queue_ids in brokers.items():
                for queue_id in queue_ids:
                    if isinstance(queue_id, bool) or not isinstance(queue_id, int) or queue_id < 0:
                        raise ValueError(f"{queue_id!r} is not a queue id")
                    found.add(Queue(topic, broker, queue_id))
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f"option assign must be JSON such as {ASSIGN_EXAMPLE}: {error}") from None
    if not found:
        raise OptionError(f"option assign has no queue: write {ASSIGN_EXAMPLE}")
    return tuple(sorted(found))
