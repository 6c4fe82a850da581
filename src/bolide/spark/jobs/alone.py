"""Allows only one run of a job at a time: two runs from the same progress would do the same work twice.

The lock is stored with the progress. A checkpoint is a folder, so its lock is a file lock, which the system releases
whenever the process ends. The offsets of a group are in the brokers, so their lock is a lease at each broker:
RocketMQ's queue locks (LOCK_BATCH_MQ) for orderly consumers, on Java's brokers and Bolide's.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from bolide.errors import BolideError
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from bolide.remoting.command import Command, make_request
from bolide.spark.errors import AlreadyRunning, ClusterUnavailable
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.patient_requests import signed
from bolide.spark.source.queues import Queue
from bolide.spark.source.source_options import SourceOptions
from bolide.store.disk.files import FileLocked, RealFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

P = ParamSpec("P")
T = TypeVar("T")

LOCK: Final = "_bolide.lock"
EXPIRY_S: Final = 60.0
"""Seconds after which a broker releases a queue lock that is not renewed, by default in Java and Bolide."""
RENEW_S: Final = 5.0
_MARGIN_S: Final = 15.0
"""Seconds before its expiry at which to treat a lease as lost if it was not renewed."""


class Lease:
    """The right to commit a group's offsets of some queues. A thread renews it until it is released.

    A restarted broker loses it, and the next renewal acquires it again. If the run is killed, it expires in a minute.
    """

    def __init__(
        self, options: SourceOptions, queues: Iterable[Queue], what: str, renew_s: float = RENEW_S,
        expiry_s: float = EXPIRY_S,
    ) -> None:  # fmt: skip
        self._options = options
        self._what = what
        self._renew_s = renew_s
        self._alive_s = expiry_s - min(_MARGIN_S, expiry_s / 4)
        # The name that brokers use.
        self.client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid.uuid4().hex[:8]}"
        self._queues: dict[str, list[MessageQueue]] = {}
        topics = set()
        for queue in queues:
            topics.add(queue.topic)
            self._queues.setdefault(queue.broker, []).append(MessageQueue(queue.topic, queue.broker, queue.queue_id))
        # Use separate connections: the job's may be waiting for a response when a renewal is due.
        self._cluster = Cluster(options)
        self._cluster.queues(topics)
        self._renewed = time.monotonic()
        self._lost = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Lease:
        try:
            began = time.monotonic()
            for broker in sorted(self._queues):
                if not self._ask(broker):
                    raise AlreadyRunning(
                        f"another run of {self._what} is active, or was killed less than {EXPIRY_S:.0f} s ago: wait "
                        "for its end and start again"
                    )
            self._renewed = began
        except BaseException:
            self._give_back()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._give_back()

    def check(self) -> None:
        """Raise `AlreadyRunning` if the lease is lost. Call this before a step that only one run may do."""
        if not self._lost and time.monotonic() - self._renewed > self._alive_s:
            self._lost = "a broker did not answer for too long"
        if self._lost:
            raise AlreadyRunning(
                f"this run of {self._what} may no longer be the only one ({self._lost}), so it stops: start it again "
                "when no other is running"
            )

    def _keep(self) -> None:
        while not self._ended.wait(self._renew_s) and not self._lost:
            began = time.monotonic()
            try:
                if not all(self._ask(broker) for broker in self._queues):
                    self._lost = "another run has taken over"
                    return
                self._renewed = began
            except BolideError:
                continue  # `check` judges by the time of the last renewal

    def _ask(self, broker: str) -> bool:
        """Acquire or renew the locks of a broker. Returns whether the lease has all of them."""
        wanted = self._queues[broker]
        body = LockBatchRequestBody(self._options.group, self.client_id, wanted)
        (answer,) = self._cluster.ask(broker, [self._request(codes.LOCK_BATCH_MQ, encode_body(body))])
        if answer.code != codes.SUCCESS:
            raise ClusterUnavailable(f"broker {broker} rejected a lock with {answer.code}: {answer.remark}")
        if not self._cluster.master_answered(broker):
            raise ClusterUnavailable(f"the master of broker {broker} does not respond: {self._what} needs its lock")
        granted = decode_body(answer.body, LockBatchResponseBody).lock_ok_mq_set
        return {(one.topic, one.queue_id) for one in wanted} <= {(one.topic, one.queue_id) for one in granted}

    def _give_back(self) -> None:
        with suppress(BolideError):  # it expires automatically
            for broker, queues in self._queues.items():
                body = UnlockBatchRequestBody(self._options.group, self.client_id, queues)
                self._cluster.ask(broker, [self._request(codes.UNLOCK_BATCH_MQ, encode_body(body))])
        self._cluster.close()

    def _request(self, code: int, body: bytes) -> Command:
        return signed(make_request(code, 0, {}, body), self._options)


def one_at_a_time(
    run: Callable[Concatenate[DataStreamWriter, str, str, P], T],
) -> Callable[Concatenate[DataStreamWriter, str, str, P], T]:
    """Decorate a function that runs a query with a checkpoint. Its third argument is the name for messages."""

    @wraps(run)
    def alone(writer: DataStreamWriter, checkpoint: str, what: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with only_run(getattr(writer, "_spark", None), checkpoint, what):
            return run(writer, checkpoint, what, *args, **kwargs)

    return alone


@contextmanager
def only_run(spark: SparkSession | None, checkpoint: str, what: str) -> Iterator[None]:
    """Lock a checkpoint on a local file system. Raises `AlreadyRunning` if another run has locked it.

    On other file systems, Spark itself stops a second query when it finds that its next batch already exists.
    """
    folder = _local(spark, checkpoint)
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    files = RealFiles()
    try:
        held = files.lock(str(folder / LOCK))
    except FileLocked:
        raise AlreadyRunning(
            f"another {what} is running with the checkpoint {checkpoint}: wait for its end, or name another checkpoint"
        ) from None
    try:
        yield
    finally:
        files.unlock(held)


def _local(spark: SparkSession | None, folder: str) -> Path | None:
    """Return a Spark path as a local path, or None for another file system or one of a Connect server."""
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    from py4j.protocol import Py4JError

    path = context._jvm.org.apache.hadoop.fs.Path(folder)
    try:
        uri = path.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(path).toUri()
    except Py4JError:
        return None  # Spark does not support this file system: the query reports it
    return Path(str(uri.getPath())) if str(uri.getScheme()) == "file" else None
