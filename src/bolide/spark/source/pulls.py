"""Builds pull requests that neither wait nor commit, and that contain their subscription."""

from __future__ import annotations

from typing import Final

from bolide.remoting import codes
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.spark.source.queues import Queue

SUBSCRIPTION_IN_REQUEST: Final = 0x4
AT_ONCE: Final = 8
"""Maximum number of pulls of one message in flight to one broker: each response is a whole message."""


def pull_fields(
    group: str, queue: Queue, offset: int = 0, count: int = 0, subscription: tuple[str, str] = ("TAG", "*")
) -> dict[str, str]:
    """Return the header fields of a pull. `subscription` is the type and text of the filter."""
    kind, expression = subscription
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_IN_REQUEST,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=expression,
        expression_type=kind,
    )
    return header.to_ext()


def pull_of_one(group: str, queue: Queue, offset: int) -> tuple[int, dict[str, str]]:
    """Return the code and the header fields of a pull of one message."""
    return codes.PULL_MESSAGE, pull_fields(group, queue, offset, 1)
