"""Resends dead letters to their original topics, after the cause is fixed.

The brokers store the progress of a redrive as the committed offsets of a separate consumer group, so any host can
resume it, and any console shows the remaining number. Dead letters are processed in slices: sent, acknowledged, then
committed. If a run fails in between, the next run resends the slice: at least once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final

from bolide.job_progress import JobProgress
from bolide.layout.names import DLQ_PREFIX, REDRIVER
from bolide.spark.errors import OptionError
from bolide.spark.failures import job_failed
from bolide.spark.jobs.alone import Lease
from bolide.spark.jobs.resending import COPIES, ORIGIN, to_send
from bolide.spark.jobs.running import JobResult
from bolide.spark.session.progress import OnProgress, no_progress
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.queues import EARLIEST, Offsets, Queue, to_json
from bolide.spark.source.ranges import limit_offsets
from bolide.spark.source.source_options import SourceOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLICE: Final = 50_000
PLACE: Final = ("broker", "queue_id")


def redrive(
    spark: SparkSession,
    group: str,
    options: Mapping[str, str],
    *,
    where: str | None = None,
    limit: int = 0,
    topic: str | None = None,
    as_group: str = REDRIVER,
    progress: OnProgress = no_progress,
) -> JobResult:
    """Resend the dead letters of a consumer group that match `where` (SQL over the source's columns).

    `limit` is the maximum number of messages in this run (0: all that exist now). The next run continues after them.
    They are sent to their original topic, or to `topic`. Other dead letters are skipped, and all remain in their queue.
    `options` specify the cluster (`namesrv`, …). Raises `OptionError` if an option is invalid, `ClusterUnavailable` if
    brokers do not respond, `JobFailed` if Spark fails, `DataLost` if dead letters expired before a run sent them, and
    `AlreadyRunning` while another run continues from the same offsets.
    """
    dead = DLQ_PREFIX + group
    checked = read_options({**options, "subscribe": dead, "group": as_group})
    began = time.monotonic()
    done = batches = 0
    interrupted = False
    with closing(Cluster(checked)) as cluster:
        queues = cluster.queues([dead])
        # Acquire the lease before reading the progress, because the last run may still be committing.
        with Lease(checked, queues, f"redrive {group} as group {as_group}") as lease:
            end = cluster.latest(queues)
            here = _begin(cluster, queues, checked, end)
            total = sum(end[queue] - here[queue] for queue in queues)
            left = total
            try:
                while left > 0 and not (limit and done >= limit):
                    upto = limit_offsets(here, end, SLICE)
                    slice_ = _Slice(spark, dead, as_group, options, here, upto)
                    lease.check()
                    before = here
                    sent, here = slice_.send(where, limit - done if limit else 0, topic)
                    lease.check()
                    # The group has not read from a broker without dead letters, which therefore rejects the group.
                    cluster.commit({queue: at for queue, at in here.items() if at != before[queue]})
                    done += sent
                    batches += 1
                    left = sum(end[queue] - here[queue] for queue in queues)
                    if left:
                        progress(JobProgress("redrive", total - left, total, time.monotonic() - began, "dead letters"))
            except KeyboardInterrupt:
                interrupted = True
    seconds = time.monotonic() - began
    progress(JobProgress("redrive", total - left, total - left, seconds, "dead letters"))
    return JobResult(done, batches, seconds, interrupted, as_group)


def _begin(cluster: Cluster, queues: list[Queue], checked: SourceOptions, end: Offsets) -> Offsets:
    """Return the start of the run in each queue. Raises `DataLost` if dead letters expired before a run sent them."""
    floor = cluster.earliest(queues)
    here = cluster.committed(queues, checked.group, EARLIEST)
    for queue, at in sorted(here.items()):
        if at > end[queue] and cluster.surely_master_answered(queue.broker):
            data_lost(
                f"{queue} was redriven up to offset {at} and ends at {end[queue]} now: it was created again, or "
                "its broker lost messages",
                checked.fail_on_data_loss,
                "redrive it from its first dead letter",
            )
            here[queue] = floor[queue]
        elif 0 <= at < floor[queue]:
            data_lost(
                f"{queue} was redriven up to offset {at} and begins at {floor[queue]} now: the dead letters in between "
                "have expired",
                checked.fail_on_data_loss,
                "redrive what is left",
            )
    return {queue: max(at, floor[queue]) for queue, at in here.items()}


class _Slice:
    """The dead letters between two sets of offsets."""

    def __init__(
        self, spark: SparkSession, dead: str, as_group: str, options: Mapping[str, str], begin: Offsets, end: Offsets
    ) -> None:
        self._begin, self._end, self._topic = begin, end, dead
        self._options = {name: value for name, value in options.items() if name.lower() != "failondataloss"}
        bounds = {"startingOffsets": json.dumps(to_json(begin)), "endingOffsets": json.dumps(to_json(end))}
        source = spark.read.format("rocketmq").options(**options).options(**bounds).option("subscribe", dead)
        # A broker accepts offsets only of registered groups, and this group is registered by reading.
        source = source.option("group", as_group)
        self._letters: DataFrame = source.load()

    def send(self, where: str | None, limit: int, topic: str | None) -> tuple[int, Offsets]:
        """Send the matching dead letters. Returns their number and the start of the next slice."""
        from pyspark.sql import functions as f

        picked = self._letters.where(where) if where else self._letters
        if limit:
            # Sort by store time: within a queue, that is the order of offsets, so this sends the head of each queue.
            picked = picked.orderBy("store_timestamp", *PLACE, "queue_offset").limit(limit)
        picked = picked.withColumn("origin", f.lit(topic) if topic else f.expr(ORIGIN)).persist()
        try:
            lost = picked.where("origin IS NULL").select(*PLACE, "queue_offset").first()
            if lost is not None:
                raise OptionError(
                    f"the dead letter at offset {lost.queue_offset} of queue {lost.queue_id} on {lost.broker} does not "
                    "say which topic it came from: name a topic for it"
                )
            taken = picked.groupBy(*PLACE).agg(f.count("*").alias("n"), f.max("queue_offset").alias("last")).collect()
            count = sum(row.n for row in taken)
            if count:
                ready = to_send(picked, f.col("origin"))
                ready.write.format("rocketmq").mode("append").options(**COPIES).options(**self._options).save()
        except OptionError:
            raise
        except Exception as error:
            raise job_failed(error) from None
        finally:
            picked.unpersist()
        if not limit or count < limit:
            return count, self._end
        reached = {Queue(self._topic, row.broker, row.queue_id): row.last + 1 for row in taken}
        return count, {queue: reached.get(queue, at) for queue, at in self._begin.items()}
