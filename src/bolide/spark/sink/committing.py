"""Commits or aborts a batch on the driver, when all tasks have written or one has failed.

The steps, and the effects of a crash between them:
1. Decide: write the half messages of the batch to the log. Before this, no message is visible; a replay starts over.
2. Commit each half message. After a crash, some are visible; the replay reads the decision, finds them, and continues.
3. Record that all are visible. After a crash before it, the replay checks again and finds all of them visible.
4. Sweep: roll back the half messages of other attempts. After a crash, a later batch does it, or the broker gives up.
Spark also calls `abort` when `commit` has failed. Decided half messages are then left to the replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from bolide.errors import BolideError
from bolide.spark.errors import ClusterUnavailable, OptionError
from bolide.spark.sink.batch_log import BatchDecision, BatchLog, Swept
from bolide.spark.sink.dead_letters import discard, publish
from bolide.spark.sink.endings import Ender
from bolide.spark.sink.half_handles import Handles
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.sink.task_writing import Written


@dataclass(frozen=True)
class CommitParts:
    """Dependencies of a commit."""

    log: type[BatchLog] = BatchLog
    ender: type[Ender] = Ender


PARTS: Final = CommitParts()


def commit_batch(options: SinkOptions, messages: Sequence[object], batch: int, parts: CommitParts = PARTS) -> None:
    """Make the messages of a batch visible exactly once. Raises `ClusterUnavailable` if brokers do not respond, or
    `DataLost` if half messages were given up. The same call can then be repeated."""
    written = [message for message in messages if isinstance(message, Written)]
    if not written:
        return  # a batch without a task has no rows
    query = written[0].task.query
    dead = [name for each in written for name in each.dead]
    if not options.exactly_once:
        _publish(options, query, batch, dead)
    elif not options.commit_log:
        with _ender(options, query, batch, parts) as ender:
            handles = _handles(written)
            ender.commit(handles, ender.tails(handles), begun=False)
            _publish(options, query, batch, dead)
            since = _since(written)
            if _may_have_strays(written):
                ender.roll_back(ender.strays(since, ender.half_ends([], since), handles.places()))
    else:
        log_of_query = parts.log(options.commit_log, query)
        with log_of_query.locked(options.patience) as log, _ender(options, query, batch, parts) as ender:
            _commit_logged(options, log, ender, written, batch, dead)


def abort_batch(options: SinkOptions, messages: Sequence[object], batch: int) -> None:
    """Roll back the half messages that the tasks of a failed write reported, and discard its dead letters.

    Half messages of a decided batch are left to its replay. Ignores `ClusterUnavailable`: a later sweep or the broker
    removes the half messages.
    """
    written = [message for message in messages if isinstance(message, Written)]
    if not written:
        return
    query = written[0].task.query
    try:
        if options.exactly_once and options.commit_log:
            with BatchLog(options.commit_log, query).locked(options.patience) as log:
                decision = log.decided(batch)
                if decision is None or decision.done:
                    _give_up(options, query, batch, written, decision)
        else:
            _give_up(options, query, batch, written, None)
    except ClusterUnavailable:
        return  # a sweep removes the half messages, or their broker gives them up


def _commit_logged(
    options: SinkOptions, log: BatchLog, ender: Ender, written: Sequence[Written], batch: int, dead: list[str]
) -> None:
    decision, begun = log.decided(batch), True
    if decision is None:
        if any(each.skipped for each in written):
            raise ClusterUnavailable(
                f"batch {batch} was skipped as written before, but the log in {options.commit_log} no longer "
                "contains it: restore the folder, and start the query again"
            )
        handles = _handles(written)
        decision, begun = BatchDecision(handles, ender.tails(handles), dead, topic=options.topic), False
        if not log.decide(batch, decision):
            decision, begun = log.decided(batch) or decision, True
    _check_topic(options, decision)
    if not decision.done:
        ender.commit(decision.handles, decision.tails, begun)
        publish(options.dead_letter_path, decision.dead)
        log.finish(batch, decision.topic)
    if options.dead_letter_path:
        discard(options.dead_letter_path, written[0].task.query, batch)
    _tidy(log, ender, written, decision, begun)


def _check_topic(options: SinkOptions, decision: BatchDecision) -> None:
    """Raise `OptionError` if two batch writes have the same name: the rows of the second would not be written."""
    if options.job_id and decision.topic not in (None, options.topic):
        raise OptionError(
            f"the log in {options.commit_log} has a write with jobId {options.job_id} to "
            f"{f'topic {decision.topic}' if decision.topic else 'the topics of its rows'}: give each write "
            "another jobId"
        )


def _tidy(log: BatchLog, ender: Ender, written: Sequence[Written], decision: BatchDecision, begun: bool) -> None:
    """Roll back half messages that abandoned attempts left. A failure only costs space on the brokers."""
    run = written[0].task.run
    last = log.swept() or Swept("", [], {})
    topics = sorted({*last.topics, *(queue.topic for each in written for queue in each.handles.by_queue)})
    since = _earliest(_since(written), last.ends)
    try:
        ends = ender.half_ends(topics, since)
        if set(ends) != set(since):
            return  # a later commit sweeps from the same position
        if not last.run:  # drivers may have died before the first commit of this query
            since = _earliest(since, ender.half_progress(since))
        if begun or _may_have_strays(written) or last.run != run:
            ender.roll_back(ender.strays(since, ends, decision.handles.places()))
        if not decision.done:  # otherwise this commit is late, and messages of later batches may precede these ends
            log.note_swept(Swept(run, topics, ends))
    except BolideError:
        return


def _give_up(
    options: SinkOptions, query: str, batch: int, written: Sequence[Written], decision: BatchDecision | None
) -> None:
    if options.dead_letter_path:
        discard(options.dead_letter_path, query, batch)
    if options.exactly_once and decision is None:
        with _ender(options, query, batch, PARTS) as ender:
            ender.roll_back(_handles(written))


def _publish(options: SinkOptions, query: str, batch: int, dead: list[str]) -> None:
    if options.dead_letter_path:
        publish(options.dead_letter_path, dead)
        discard(options.dead_letter_path, query, batch)


def _handles(written: Sequence[Written]) -> Handles:
    handles = Handles()
    for each in written:
        handles.update(each.handles)
    return handles


def _since(written: Sequence[Written]) -> dict[str, int]:
    """Return the ends of the half queues before the first of these attempts sent a message."""
    return _earliest(*(each.starts for each in written))


def _earliest(*places: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in places:
        for broker, offset in place.items():
            found[broker] = min(offset, found.get(broker, offset))
    return found


def _may_have_strays(written: Sequence[Written]) -> bool:
    return any(each.task.attempt > 0 or each.uncertain > 0 for each in written)


@contextmanager
def _ender(options: SinkOptions, query: str, batch: int, parts: CommitParts) -> Iterator[Ender]:
    ender = parts.ender(options, query, batch)
    try:
        yield ender
    finally:
        ender.close()
