"""Computes the first and last offset of a read per queue, from positions, filters and the messages at the brokers."""

from __future__ import annotations

from collections.abc import Container

from bolide.spark.errors import OptionError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.queues import EARLIEST, LATEST, Offsets, Queue
from bolide.spark.source.source_options import SourceOptions


def batch_offsets(cluster: Cluster, options: SourceOptions) -> tuple[Offsets, Offsets]:
    """Return the first and the last offset of a batch read, by queue; the last is exclusive.

    Raises DataLost if messages have expired or an offset is after the end of its queue, and OptionError if the offsets
    of a queue contradict each other.
    """
    queues = cluster.selected()
    begin = begin_offsets(cluster, options, EARLIEST)
    hidden_ends(cluster, queues, options)
    check_ends(cluster, options, begin, "read nothing from it")
    end = cluster.resolve(options.ending, queues, LATEST)
    if options.filters.stored_to:
        # A 4.9 broker returns the last message if all are older. That row is harmless, because rows are filtered again.
        later = cluster.by_time(dict.fromkeys(queues, options.filters.stored_to))
        end = {queue: min(offset, later[queue] + 1) for queue, offset in end.items()}
    return begin, end


def check_ends(cluster: Cluster, options: SourceOptions, begin: Offsets, instead: str) -> None:
    """Raise an error if offsets of a user or a group would make a queue appear empty. `instead` describes a read that
    allows loss."""
    if options.starting.kind not in ("offsets", "group"):
        return
    for queue, end in cluster.latest(list(begin)).items():
        if begin[queue] > end and cluster.surely_master_answered(queue.broker):
            data_lost(
                f"reading of {queue} would start at offset {begin[queue]}, but it ends at {end}: the offset is "
                "wrong, or its topic was deleted and created again",
                options.fail_on_data_loss,
                instead,
            )
    for queue, last in options.ending.given().items() if options.ending.kind == "offsets" else ():
        if 0 <= last < begin.get(queue, 0):
            raise OptionError(
                f"reading of {queue} would start at offset {begin[queue]} and end at {last}: give endingOffsets after "
                "startingOffsets"
            )


def begin_offsets(cluster: Cluster, options: SourceOptions, default: int) -> Offsets:
    """Return the start offsets of a read. Queues missing in JSON offsets start at `default`, -2 (earliest) or -1
    (latest); a stream uses -1.

    A stream by pattern may start without any topic. Raises `DataLost` if the first messages have expired.
    """
    queues = cluster.selected(tolerant=default == LATEST and bool(options.selection.pattern))
    begin = cluster.resolve(options.starting, queues, default)
    floor = cluster.earliest(queues)
    if options.starting.kind in ("offsets", "group"):
        for queue, offset in begin.items():
            if offset < floor[queue]:
                data_lost(
                    f"reading of {queue} would begin at offset {offset}, but the broker holds messages from "
                    f"{floor[queue]} on",
                    options.fail_on_data_loss,
                    "begin there",
                )
    if options.filters.stored_from:
        times = cluster.by_time(dict.fromkeys(queues, options.filters.stored_from))
        begin = {queue: max(offset, times[queue]) for queue, offset in begin.items()}
    return {queue: max(offset, floor[queue]) for queue, offset in begin.items()}


def hidden_ends(
    cluster: Cluster, queues: list[Queue], options: SourceOptions, reached: Container[Queue] = ()
) -> Offsets:
    """Return the ends of former queues of shrunk topics, if the queues had messages and are not in `reached`.

    Raises `DataLost` if these queues still contain messages of the read.
    """
    hidden = cluster.hidden(queues)
    asked = [queue for queue in hidden if queue not in reached]
    newest = cluster.latest(asked)
    end = {queue: newest[queue] for queue in asked if newest.get(queue, 0) > 0}
    if not end or (options.starting.kind == "latest" and reached == ()):
        return end
    begin = cluster.earliest(list(end))
    if options.starting.kind in ("timestamp", "times"):
        times = {queue: time for queue in end if (time := options.starting.time_of(queue)) is not None}
        begin |= cluster.by_time(times)
    for queue in sorted(end):
        if end[queue] > begin[queue]:
            data_lost(
                f"{queue} holds messages at offsets {begin[queue]} to {end[queue]}, but its topic has only "
                f"{hidden[queue]} queues for reading on {queue.broker} now: give it {queue.queue_id + 1} again to read "
                "them",
                options.fail_on_data_loss,
                "read without them",
            )
    return end
