"""Light queues (LMQ): a broker can have tens of thousands. A message lists the light queues that it enters.

A light queue is called ``%LMQ%name``, is not in any route, and has one queue (id 0) on each broker that stores messages
of its parent topic. The broker needs enableLmq=true and enableMultiDispatch=true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.client.messages.arguments import check_text
from bolide.client.messages.errors import MessageRefused
from bolide.errors import ArgumentError
from bolide.layout.names import LMQ_PREFIX
from bolide.layout.property_names import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

_BARRED: Final = frozenset(",/\x00\x01\x02")


def lmq(name: str) -> str:
    """Return the topic to subscribe to for a light queue: ``lmq("room-1")`` is ``%LMQ%room-1``."""
    if not check_text("name", name).removeprefix(LMQ_PREFIX):
        raise ArgumentError(f"name is {name!r}, give the name of a light queue", "name")
    return _prefixed(name)


def _prefixed(name: str) -> str:
    return name if name.startswith(LMQ_PREFIX) else LMQ_PREFIX + name


def is_lmq(topic: str) -> bool:
    """Return whether the topic is a light queue."""
    return topic.startswith(LMQ_PREFIX)


def queue_list(names: Iterable[str]) -> str:
    """Return light queues as a message property. Raises `MessageRefused` for invalid names and duplicates."""
    listed = [_prefixed(name) for name in ([names] if isinstance(names, str) else names)]
    for name in listed:
        if name == LMQ_PREFIX or not _BARRED.isdisjoint(name):
            raise MessageRefused(
                f"{name!r} is not a light queue: its name must not be empty or contain a comma or slash", "light_queues"
            )
    if len(set(listed)) != len(listed):
        raise MessageRefused(
            f"the light queues {','.join(listed)[:80]} are not all different: list each once", "light_queues"
        )
    return ",".join(listed)


def check_parent(topic: str, parent: str) -> None:
    """Raise `ArgumentError` for a light queue without its parent topic, and for any other topic with one."""
    if is_lmq(topic) and not parent:
        raise ArgumentError(f"{topic} is a light queue, which has no route: set parent= to its parent topic", "parent")
    if parent and not is_lmq(topic):
        raise ArgumentError(f"{topic} has a route: omit parent=, which is for light queues ({LMQ_PREFIX}…)", "parent")


def light_offset(topic: str, properties: dict[str, str]) -> int:
    """Return a message's offset in a light queue, or -1 if the message does not list that queue."""
    names = properties.get(INNER_MULTI_DISPATCH, "").split(",")
    offsets = properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(",")
    for name, offset in zip(names, offsets, strict=False):
        if name == topic and offset.isdecimal():
            return int(offset)
    return -1
