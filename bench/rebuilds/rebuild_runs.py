"""One rebuild of a store's queues and index from its log, from the start of the first process until all is served."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from bench.rebuilds.served import Expected, what_is_behind, what_is_missing
from bench.report.shown import Step, say
from bench.servers.servers import BolideBroker, DispatchOnSpark, java_broker
from bench.servers.stopping import Failed, last_line

from bolide.spark.bench.store import QUEUES, TOPIC
from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaBroker
from proof.kit.processes import ChildProcess
from proof.kit.waiting import wait_until

JAVA, SPARK, BROKER = f"Java {BROKER_VERSION} broker", "Bolide on Spark", "Bolide broker"
_LIMIT_SECONDS = 1800.0
_STOP_SECONDS = 180.0
_CHUNK = 4 * 1024 * 1024

Broker = JavaBroker | BolideBroker


@dataclass(frozen=True)
class Run:
    """One rebuild: seconds from the start of the first process until all is served."""

    name: str
    round: int
    seconds: float
    rebuild: float
    """Of these, seconds until the rebuild itself was over; a broker starts and rebuilds in one."""
    cpu_seconds: float
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage of the rebuild on Spark; what is left of `rebuild` is the start of Python and Spark."""


@dataclass(frozen=True)
class Task:
    """What is rebuilt: the folder with the log, what must be served of it, and Spark's master."""

    store: Path
    expected: Expected
    messages: int
    master: str

    def lay_out(self, home: Path) -> None:
        """A store of its own below `home`: the log, its topic and nothing else.

        The last file, in which a broker goes on writing, is copied; the full ones are linked, and `stamps` tells
        whether one was written to all the same.
        """
        log = home / "store" / "commitlog"
        log.mkdir(parents=True)
        files = sorted((self.store / "commitlog").iterdir())
        for file in files[:-1]:
            os.link(file, log / file.name)
        _copy(files[-1], log / files[-1].name)
        config = home / "store" / "config"
        config.mkdir()
        topic = {"topicName": TOPIC, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "order": False}
        topic |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
        version = {"counter": 1, "stateVersion": 0, "timestamp": 0}
        text = json.dumps({"dataVersion": version, "topicConfigTable": {TOPIC: topic}})
        (config / "topics.json").write_text(text, encoding="utf-8")

    def stamps(self) -> dict[str, int]:
        """When each file of the log was last written."""
        return {file.name: file.stat().st_mtime_ns for file in (self.store / "commitlog").iterdir()}

    def warm(self) -> None:
        """Read the log once, so that nobody is the first; write what others left to write."""
        os.sync()
        for file in sorted((self.store / "commitlog").iterdir()):
            with file.open("rb", 0) as log:
                for _ in _chunks(log):
                    pass


def _chunks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """What a file holds and where, without its holes."""
    size, at = os.fstat(file.fileno()).st_size, 0
    while at < size:
        try:
            at = os.lseek(file.fileno(), at, os.SEEK_DATA)
        except OSError:  # from here on it is one hole
            return
        end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(file.fileno(), min(_CHUNK, end - at), at)
            yield at, data
            at += len(data)


def _copy(source: Path, target: Path) -> None:
    """With its holes."""
    with source.open("rb", 0) as data, target.open("wb", 0) as made:
        for at, chunk in _chunks(data):
            os.pwrite(made.fileno(), chunk, at)
        made.truncate(source.stat().st_size)


def wait_served(server: Broker, expected: Expected, step: Step) -> None:
    """Until all is served, which ends the step; then the broker must also say so. Raises Failed."""
    _wait(server, lambda: what_is_missing(server.port, expected))
    step.end()
    _wait(server, lambda: what_is_behind(server.port))


def _wait(server: Broker, missing: Callable[[], str]) -> None:
    """Until nothing is missing."""
    last = ""

    def done() -> bool:
        nonlocal last
        if not server.running:
            raise Failed(f"the broker ended while it was asked: {last_line(server.output())}")
        last = missing()
        return not last

    try:
        wait_until(done, "all is served", _LIMIT_SECONDS)
    except AssertionError:
        raise Failed(f"not all is served after {_LIMIT_SECONDS:.0f} s: {last}") from None


def rebuild_by_broker(task: Task, home: Path, number: int, name: str, start: Callable[[], Broker]) -> Run:
    """Start a broker on a store without queues and index; with a clean stop at the end."""
    queues = home / "store" / "consumequeue"

    def detail() -> str:
        files = [file for file in queues.rglob("*") if file.is_file()]
        done = sum(file.stat().st_blocks for file in files) * 512 / (20 * task.messages)
        return f"about {min(done, 1.0):.0%} of the queues"

    with Step(f"round {number}, {name}", detail) as step:
        try:
            server = start()
        except AssertionError as error:
            raise Failed(f"the {name} did not start: {last_line(str(error))}") from None
        try:
            wait_served(server, task.expected, step)
            _stop(server)
        finally:
            server.kill()
    return Run(name, number, step.seconds, step.seconds, step.cpu_seconds)


def prepare_spark() -> None:
    """Keep Spark's classes for the next starts, as a user does once; where that cannot be, it is said."""
    command = [sys.executable, "-m", "bolide.cli", "spark", "prepare"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_SECONDS)
    if done.returncode != 0:
        say(f"Spark is not prepared: {last_line(done.stderr)}")


def rebuild_on_spark(task: Task, home: Path, number: int) -> Run:
    """`bolide pipeline dispatch --in-place`, then our broker on the result."""
    job: DispatchOnSpark | None = None
    with Step(f"round {number}, {SPARK}", lambda: "" if job is None else job.progress()) as step:
        job = DispatchOnSpark(home / "store", home / "dispatch.out", task.master)
        try:
            stages = job.finish(_LIMIT_SECONDS)
        finally:
            job.interrupt()
        rebuilt = step.seconds
        broker = our_broker(home)
        try:
            wait_served(broker, task.expected, step)
            _stop(broker)
        finally:
            broker.kill()
    return Run(SPARK, number, step.seconds, rebuilt, step.cpu_seconds, stages)


def our_broker(home: Path) -> BolideBroker:
    """Our broker on the store of `home`. Raises Failed."""
    try:
        return BolideBroker(home, "async", ready_seconds=_LIMIT_SECONDS)
    except AssertionError as error:
        raise Failed(f"the {BROKER} did not start: {last_line(str(error))}") from None


def _stop(server: ChildProcess) -> None:
    """A clean stop, so that a mapped file is whole."""
    try:
        server.stop(_STOP_SECONDS)
    except AssertionError:
        raise Failed(f"a broker did not stop within {_STOP_SECONDS:.0f} s") from None


def measure(task: Task, name: str, home: Path, number: int) -> Run:
    """One rebuild in a folder of its own."""
    home.mkdir()
    task.lay_out(home)
    task.warm()
    if name == SPARK:
        run = rebuild_on_spark(task, home, number)
    elif name == JAVA:
        run = rebuild_by_broker(task, home, number, name, partial(java_broker, home, "async", _LIMIT_SECONDS))
    else:
        run = rebuild_by_broker(task, home, number, name, partial(our_broker, home))
    stages = "".join(f", {stage} {seconds:.1f} s" for stage, seconds in run.stages.items())
    served = f" (rebuilt after {run.rebuild:.1f} s{stages})" if stages else ""
    used = f"{run.cpu_seconds:.0f} s of processors"
    say(f"round {number}, {name}: all is served after {run.seconds:.1f} s{served}, {used}")
    return run
