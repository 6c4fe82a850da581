"""Second step of access control: handlers check the objects they find against the policies of the user.

The authorizer checks the names in a request. A request does not name the topics of records that it finds by offset or
id, the light queues in the properties of a message, or the topics of another group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.broker.refused import Refused
from bolide.layout.names import HALF_TOPIC, LMQ_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.properties import property_value
from bolide.layout.property_names import INNER_MULTI_DISPATCH, REAL_TOPIC
from bolide.layout.record import Record, decode_record
from bolide.remoting.command import Command

WAITING_TOPICS: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC})
"""System topics that store a message until it is delivered; its property REAL_TOPIC names the topic of the message."""


def topics_of(record: Record) -> list[str]:
    """Return the topics that serve a record: the topic of the message, then its light queues."""
    topic: str = record.topic
    if topic in WAITING_TOPICS:
        topic = property_value(record.properties, REAL_TOPIC) or topic
    listed = property_value(record.properties, INNER_MULTI_DISPATCH) or ""
    return [topic, *(name for name in listed.split(",") if name.startswith(LMQ_PREFIX))]


def may_touch(command: Command, topics: Iterable[str]) -> bool:
    """Return whether the sender of the command has permission for at least one of these topics."""
    return command.permit is None or command.permit.refusal(topics) is None


def check_found(command: Command, topics: Iterable[str]) -> None:
    """Raise `Refused` if the sender of the command has permission for none of these topics."""
    permit = command.permit
    if permit is not None:
        why = permit.refusal(topics)
        if why is not None:
            raise Refused(permit.denial, why)


def check_each(command: Command, topics: Iterable[str]) -> None:
    """Raise `Refused` if the sender of the command lacks permission for one of these topics."""
    for topic in topics:
        check_found(command, [topic])


def check_record(command: Command, record: bytes) -> None:
    """Call `check_found` for the topics of a stored record, which is decoded only if access control is on."""
    if command.permit is not None:
        check_found(command, topics_of(decode_record(record, 0)))
