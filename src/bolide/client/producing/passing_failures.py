"""Failures of sends that may soon pass."""

from __future__ import annotations

from typing import Final

from bolide.client.messages.errors import NoQueue, ResponseError, TopicNotFound
from bolide.errors import BolideError, ConnectionLost, reason
from bolide.remoting import codes

PASSING_CODES: Final = frozenset({codes.SYSTEM_BUSY, codes.SERVICE_NOT_AVAILABLE, codes.GO_AWAY})
"""Response codes of a broker that is briefly overloaded, is starting or stopping, or is no longer the master.
The message is not stored."""
PASSING_REMARK: Final = "in-sync replicas not enough"
"""The remark of a SYSTEM_ERROR if a master rejects a send because too few replicas are in sync.
The message is not stored."""


def is_busy(error: BolideError) -> bool:
    """Return whether a broker is overloaded, or became a slave. The code is the same; only a new route distinguishes
    them."""
    return isinstance(error, ResponseError) and error.code == codes.SYSTEM_BUSY


def no_broker(topic: str, error: TopicNotFound) -> NoQueue:
    """Return the error for a topic that has lost its route: its brokers are down, or it was deleted."""
    return NoQueue(f"no broker serves topic {topic} now, it had a route before: {reason(error)}")


def is_passing(error: BolideError) -> bool:
    """Return whether the same send may soon succeed: a broker is down, busy, or no longer the master."""
    return is_passing_rejection(error) or isinstance(error, ConnectionLost | NoQueue)


def is_passing_rejection(error: BolideError) -> bool:
    """Return whether a broker rejected a send for a reason that may pass, and certainly has not stored it."""
    if not isinstance(error, ResponseError):
        return False
    return error.code in PASSING_CODES or error.remark.startswith(PASSING_REMARK)
