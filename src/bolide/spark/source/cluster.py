"""The driver's client of a cluster: lists queues, and finds offsets for every kind of position.

Runs in Spark's planner and stream processes, never in an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.offsets import UpdateConsumerOffsetRequestHeader
from bolide.spark.errors import ClusterUnavailable, NotPermitted, OptionError
from bolide.spark.source.cluster_routes import ClusterRoutes
from bolide.spark.source.connection import ClusterAccess
from bolide.spark.source.patient_requests import PAUSE_S
from bolide.spark.source.positions import Position
from bolide.spark.source.pulled_offsets import PulledOffsets
from bolide.spark.source.queues import EARLIEST, LATEST, Offsets, Queue


class Cluster(ClusterRoutes):
    """A cluster and the offsets of its queues."""

    def __init__(self, options: ClusterAccess, pause_s: float = PAUSE_S) -> None:
        super().__init__(options, pause_s)
        self._tables: dict[str, set[str]] = {}
        """Topics in which a broker has a table of the group's offsets, by broker name."""
        self._pulled = PulledOffsets(self.answers, options.group, self._exists)
        self._without_get: set[tuple[str, str]] = set()
        """(topic, broker) pairs for which this user lacks the right `Get`, so that offsets are found by pulls."""

    def _unanswered(self, broker: str) -> None:
        self._tables.pop(broker, None)  # a restarted broker may have lost them

    def resolve(self, position: Position, queues: list[Queue], default: int) -> Offsets:
        """Return the offset of each queue at a position. Queues missing in JSON offsets get `default` (-2 or -1)."""
        if position.kind == "earliest":
            return self.earliest(queues)
        if position.kind == "latest":
            return self.latest(queues)
        if position.kind in ("timestamp", "times"):
            times = {queue: position.time_of(queue) for queue in queues}
            timed = {queue: time for queue, time in times.items() if time is not None}
            return self._fill(self.by_time(timed), queues, default)
        if position.kind == "group":
            return self.committed(queues, self._options.group, default)
        return self._given(position.given(), queues, default)

    def earliest(self, queues: list[Queue]) -> Offsets:
        """Return the first stored offset of each queue."""
        found, refused = self._offsets(queues, lambda queue: (codes.GET_MIN_OFFSET, _queue_ext(queue)))
        return found | {queue: first for queue, (first, _) in self._pulled.ends(refused).items()}

    def latest(self, queues: list[Queue]) -> Offsets:
        """Return the end offset of each queue, which the next message will get."""
        found, refused = self._offsets(queues, lambda queue: (codes.GET_MAX_OFFSET, _queue_ext(queue)))
        return found | {queue: end for queue, (_, end) in self._pulled.ends(refused).items()}

    def by_time(self, times: Mapping[Queue, int]) -> Offsets:
        """Return the first offset of each queue that was stored at its time (ms since 1970) or later."""

        def question(queue: Queue) -> tuple[int, dict[str, str]]:
            return codes.SEARCH_OFFSET_BY_TIMESTAMP, {**_queue_ext(queue), "timestamp": str(times[queue])}

        found, refused = self._offsets(list(times), question)
        return found | self._pulled.by_time({queue: times[queue] for queue in refused})

    def committed(self, queues: list[Queue], group: str, default: int) -> Offsets:
        """Return the committed offsets of a consumer group. Queues without one get `default` (-2 or -1)."""

        def question(queue: Queue) -> tuple[int, dict[str, str]]:
            ext = {**_queue_ext(queue), "consumerGroup": group, "setZeroIfNotFound": "false"}
            return codes.QUERY_CONSUMER_OFFSET, ext

        found: Offsets = {}
        for queue, answer in self.answers(queues, question):
            if answer.code == codes.SUCCESS:
                found[queue] = int(answer.ext()["offset"])
            elif answer.code != codes.QUERY_NOT_FOUND:
                raise _refusal(queue, answer, f"the right Sub to the topic and to group {group}")
        return self._fill(found, queues, default)

    def commit(self, offsets: Mapping[Queue, int]) -> None:
        """Commit offsets for the group. Raises `ClusterUnavailable` if a broker rejects them or does not respond.

        A Java broker creates the table of a group and topic at the first commit, without a lock: if two first commits
        arrive together, it may lose one although it confirms both. So the first commit to a broker for a topic must be
        confirmed before the others are sent.
        """
        first: dict[tuple[str, str], Queue] = {}
        for queue in offsets:
            if queue.topic not in self._tables.get(queue.broker, ()):
                first.setdefault((queue.topic, queue.broker), queue)
        self._commit(list(first.values()), offsets)
        for topic, broker in first:
            self._tables.setdefault(broker, set()).add(topic)
        alone = set(first.values())
        self._commit([queue for queue in offsets if queue not in alone], offsets)

    def _commit(self, queues: list[Queue], offsets: Mapping[Queue, int]) -> None:
        def question(queue: Queue) -> tuple[int, dict[str, str]]:
            header = UpdateConsumerOffsetRequestHeader(
                consumer_group=self._options.group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=offsets[queue],
            )
            return codes.UPDATE_CONSUMER_OFFSET, header.to_ext()

        for queue, answer in self.answers(queues, question):
            if answer.code == codes.NO_PERMISSION:
                raise _refusal(queue, answer, "the right Sub to the topic and to the group")
            if answer.code != codes.SUCCESS:
                raise ClusterUnavailable(
                    f"the broker of {queue} rejected the offset of group {self._options.group} with {answer.code}: "
                    f"{answer.remark}; set commitOffsets to false to read without commits"
                )

    def _given(self, given: Mapping[Queue, int], queues: list[Queue], default: int) -> Offsets:
        unknown = sorted(set(given) - set(queues))
        if unknown:
            known = ", ".join(str(queue) for queue in queues[:8])
            raise OptionError(f"offsets name the queue {unknown[0]}, which does not exist; the queues are {known}")
        plain = {queue: offset for queue, offset in given.items() if offset >= 0}
        for mark, ask in ((EARLIEST, self.earliest), (LATEST, self.latest)):
            marked = [queue for queue, offset in given.items() if offset == mark]
            if marked:
                plain.update(ask(marked))
        return self._fill(plain, queues, default)

    def _fill(self, found: Offsets, queues: list[Queue], default: int) -> Offsets:
        missing = [queue for queue in queues if queue not in found]
        if missing:
            found.update(self.earliest(missing) if default == EARLIEST else self.latest(missing))
        return found

    def _offsets(
        self, queues: list[Queue], question: Callable[[Queue], tuple[int, dict[str, str]]]
    ) -> tuple[Offsets, list[Queue]]:
        """Return offsets, and the queues for which this user lacks the right `Get`."""
        found: Offsets = {}
        refused = [queue for queue in queues if (queue.topic, queue.broker) in self._without_get]
        asked = [queue for queue in queues if (queue.topic, queue.broker) not in self._without_get]
        for queue, answer in self.answers(asked, question):
            if answer.code == codes.SUCCESS:
                found[queue] = int(answer.ext()["offset"])
            elif answer.code == codes.NO_PERMISSION:
                self._without_get.add((queue.topic, queue.broker))
                refused.append(queue)
            else:
                raise _refusal(queue, answer, "")
        return found, refused

    def _exists(self, queue: Queue) -> bool:
        return not self.dropped([queue])


def _refusal(queue: Queue, answer: Command, right: str) -> ClusterUnavailable:
    """Return the error for a response; `right` describes the rights that the request needs."""
    if answer.code == codes.NO_PERMISSION:
        return NotPermitted(f"{queue}: the broker refuses the request: {answer.remark}; it needs {right}")
    return ClusterUnavailable(f"{queue}: the broker answered {answer.code}: {answer.remark}")


def _queue_ext(queue: Queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id)}
