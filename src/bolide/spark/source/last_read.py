"""Requests the last message that a stream read from each queue, to detect a recreated queue (`marks`).

Pulls one message per queue, and only from queues that have advanced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.marks import MessagesBefore, mark_of
from bolide.spark.source.pulls import AT_ONCE, pull_of_one
from bolide.spark.source.queues import Queue

ATTEMPTS: Final = 2
"""Pulls per message: after an operator resets an offset, the group's next pull returns no message."""


def look(cluster: Cluster, group: str, offsets: Mapping[Queue, int]) -> MessagesBefore:
    """Return the messages before these offsets.

    A queue is in neither result if the message has expired or the broker rejects the pull. Raises `ClusterUnavailable`
    if a broker does not respond.
    """
    found = MessagesBefore({}, {})
    asked = {queue: offset - 1 for queue, offset in offsets.items() if offset > 0}

    def question(queue: Queue) -> tuple[int, dict[str, str]]:
        return pull_of_one(group, queue, asked[queue])

    left = sorted(asked)
    for _ in range(ATTEMPTS):
        again = []
        for queue, answer in cluster.answers(left, question, AT_ONCE):
            if not _take(found, queue, asked[queue], answer, cluster):
                again.append(queue)
        left = again
    return found


def _take(found: MessagesBefore, queue: Queue, asked: int, answer: Command, cluster: Cluster) -> bool:
    """Record a response. Returns False if it has no result, but a repeated request may have one."""
    if answer.code == codes.SUCCESS:
        records = decode_records(answer.body)
        if records and records[0].queue_offset == asked:
            found.marks[queue] = mark_of(records[0].physical_offset, records[0].store_timestamp)
    elif answer.code in (codes.PULL_NOT_FOUND, codes.PULL_OFFSET_MOVED):
        header = decode_header(answer, PullMessageResponseHeader)
        if header.min_offset <= asked < header.max_offset:
            return False
        if asked >= header.max_offset and cluster.surely_master_answered(queue.broker):
            found.ends[queue] = header.max_offset
    return True
