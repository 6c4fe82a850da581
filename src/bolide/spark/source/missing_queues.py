"""Queues in the checkpoint that the cluster does not show: reports their lost messages, and drops deleted queues."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from bolide.spark.source.batch_plan import shorter
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.source_options import SourceOptions

_LOG: Final = logging.getLogger("bolide.spark")


class Loss(NamedTuple):
    """A loss of messages that a query has not read."""

    what: str
    instead: str
    """Behaviour of the query if loss is allowed."""


def made_again(queue: Queue, reached: int, seen: str) -> Loss:
    """Return the loss of a queue that was recreated since the checkpoint. `seen` describes how that was detected."""
    return Loss(
        f"{queue} was read up to offset {reached} and {seen}: its topic was deleted and created again, or its broker "
        "lost messages",
        "read it from its first message",
    )


def left_behind(reached: Mapping[Queue, int], ends: Offsets, counts: Mapping[Queue, int]) -> dict[Queue, Loss]:
    """Return the losses of removed queues that still contain messages, which brokers do not return.

    `counts` is the current number of read queues of each removed queue's topic.
    """
    return {
        queue: Loss(
            f"{queue} was read up to offset {reached[queue]} and holds messages up to {end}, but its topic has only "
            f"{counts[queue]} queues for reading on {queue.broker} now: give it {queue.queue_id + 1} again until they "
            "are read",
            "continue without them",
        )
        for queue, end in ends.items()
        if end > reached[queue]
    }


def away(queue: Queue, deleted: bool, registered: Collection[str]) -> str:
    """Return the reason why no route contains a queue. `registered` are the registered brokers."""
    if deleted:
        return f"{queue} no longer exists: its topic was deleted, with what had not been read"
    if queue.broker in registered:
        return f"{queue} cannot be read to its end: its topic is not readable on {queue.broker}"
    return f"{queue} cannot be read to its end: broker {queue.broker} is not registered with a name server"


class MissingQueues:
    """Checks the queues that are in a checkpoint but not in the newest offsets. Reports each queue once."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._left: set[Queue] = set()
        """Removed queues that contained messages."""
        self._away: set[Queue] = set()
        """Queues without a route."""

    def lost(self, loss: Loss) -> None:
        """Raise `DataLost`, or log the loss if it is allowed."""
        data_lost(loss.what, self._options.fail_on_data_loss, loss.instead)

    def forgotten(self, reached: Offsets, newest: Offsets, ends_now: bool) -> set[Queue]:
        """Return the queues that no longer exist. Raises `DataLost` unless loss is allowed.

        A query with `ends_now` must not treat missing queues as empty. A continuous query waits for them.
        """
        missing = {queue: offset for queue, offset in reached.items() if queue not in newest}
        counts = self._cluster.dropped(missing)
        found = self._removed(missing, counts)
        self._away.intersection_update(missing)
        keeps = self._options.selection.keeps
        gone = [queue for queue in missing if queue not in counts and queue not in self._away and keeps(queue)]
        return found | self._without_route(gone, ends_now)

    def _removed(self, reached: Offsets, counts: Mapping[Queue, int]) -> set[Queue]:
        """Check that removed queues were read to their end. Returns the queues that a recreated topic never had."""
        asked = [queue for queue in counts if queue not in self._left]
        ends = self._cluster.latest(asked) if asked else {}
        for queue, loss in left_behind(reached, ends, counts).items():
            self.lost(loss)
            self._left.add(queue)
        found: set[Queue] = set()
        for queue, end in shorter({queue: reached[queue] for queue in ends}, ends).items():
            if self._cluster.surely_master_answered(queue.broker):
                self.lost(made_again(queue, reached[queue], f"ends at {end} now"))
                found.add(queue)
        return found

    def _without_route(self, queues: list[Queue], ends_now: bool) -> set[Queue]:
        """Report queues without a route. Returns the queues whose topic was deleted."""
        if not queues:
            return set()
        registered = self._cluster.registered()
        deleted = {queue for queue in queues if queue.broker in registered and not self._cluster.routed(queue)}
        for queue in queues:
            what = away(queue, queue in deleted, registered)
            if ends_now:
                self.lost(Loss(what, "continue without it"))
            else:
                _LOG.warning("%s; the query waits for it", what)
        self._away.update(queues)
        return deleted if ends_now else set()
