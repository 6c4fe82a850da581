"""Rows of many connections that do little: heartbeats, held pulls, and how soon a message reaches one that waits."""

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.loads.generator import program
from bench.loads.subject import Subject
from bench.servers.machine import Used, Watch, anonymous_mb, java_memory_mb, used
from bench.servers.stopping import Failed

from proof.kit.processes import AnsweringProcess

_GROUP_SIZE = 100
_QUIET_SECONDS = 0.2
_QUIET_SHARE = 0.1
_MOST_QUIET_SECONDS = 5.0
_GONE_SECONDS = 20.0
_MOST_SECONDS = 600.0
LATENCY_RATE = 100


class Crowd(AnsweringProcess):
    """The program `crowd.c`: reads one command per line."""

    def __init__(self, port: int, connections: int, topic: str) -> None:
        words = ["--port", str(port), "--connections", str(connections), "--topic", topic]
        words += ["--groups", str(max(connections // _GROUP_SIZE, 1))]
        super().__init__([program("crowd"), *words])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def run(self, command: str) -> dict[str, float]:
        """Run one command and return its figures. Raises Failed if the program ends."""
        try:
            return self.ask(command, _MOST_SECONDS)
        except AssertionError as error:
            raise Failed(f"the crowd failed: {error}") from None

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the program."""
        return used(self.pid).seconds


def latency(subject: Subject) -> dict[str, float]:
    """From a send to its arrival at the one held pull."""
    topic = subject.new_name("latency")
    watch = Watch(subject.server.pid)
    with Crowd(subject.server.port, 1, topic) as crowd:
        crowd.run("connect")
        crowd.run("prepare")
        seconds = subject.scale.watch
        seen = crowd.run(f"latency {LATENCY_RATE} {seconds}")
        return {**seen, **watch.end(seen["count"], crowd.cpu_seconds)}


def connections(subject: Subject) -> dict[str, float]:
    """Open all, send one heartbeat of a consumer on each; what each costs in time, processor time and memory."""
    topic, count = subject.new_name("crowd"), subject.scale.crowd
    before = _memory_mb(subject)
    watch, spent = Watch(subject.server.pid), used(subject.server.pid)
    with Crowd(subject.server.port, count, topic) as crowd:
        opened = crowd.run("connect")
        beaten = crowd.run("heartbeat")
        if beaten["refused"] or beaten["answers"] != count:
            raise Failed(f"{subject.name} answered {beaten['answers']:.0f} of {count} heartbeats")
        _until_quiet(subject, crowd)
        spent = used(subject.server.pid) - spent
        figures = {
            "seconds": opened["seconds"] + beaten["seconds"],
            "cpu_seconds": spent.seconds,
            "notifications": beaten["notifications"],
            "count": count,
            **watch.end(count, crowd.cpu_seconds),
        }
        figures["kb_each"] = max((_memory_mb(subject) - before) * 1000 / count, 0.01)
    _until_gone(subject)
    return figures


def held(subject: Subject) -> dict[str, float]:
    """Hold a pull on each; processor time meanwhile; then one message that answers all of them."""
    topic, count = subject.new_name("held"), subject.scale.crowd
    watch = Watch(subject.server.pid)
    with Crowd(subject.server.port, count, topic) as crowd:
        crowd.run("connect")
        crowd.run("prepare")
        crowd.run("hold")
        _until_quiet(subject, crowd)
        seconds = subject.scale.watch
        before = used(subject.server.pid)
        rested = crowd.run(f"rest {seconds}")
        idle = used(subject.server.pid) - before
        if rested["answers"]:
            raise Failed(f"{subject.name} answered {rested['answers']:.0f} held pulls without a message")
        before = used(subject.server.pid)
        woken = crowd.run("wake")
        if woken["woken"] != count or woken["refused"]:
            raise Failed(f"{subject.name} answered {woken['woken']:.0f} of {count} held pulls, when a message came")
        _until_quiet(subject, crowd)
        waking: Used = used(subject.server.pid) - before
        figures = {
            "cpu_percent": max(idle.seconds / seconds * 100, 0.1),
            "first_ms": woken["first_ms"],
            "last_ms": woken["last_ms"],
            "wake_cpu_ms": waking.seconds * 1000,
            "count": count,
            **watch.end(count, crowd.cpu_seconds),
        }
    _until_gone(subject)
    return figures


def _memory_mb(subject: Subject) -> float:
    return java_memory_mb(subject.server.pid) if subject.java else anonymous_mb(subject.server.pid)


def _until_quiet(subject: Subject, crowd: Crowd) -> None:
    """Until the broker has done what it was asked for, as far as its processor time tells."""
    end = time.monotonic() + _MOST_QUIET_SECONDS
    while time.monotonic() < end:
        before = used(subject.server.pid)
        crowd.run(f"rest {_QUIET_SECONDS}")
        if (used(subject.server.pid) - before).seconds < _QUIET_SHARE * _QUIET_SECONDS:
            return


def _until_gone(subject: Subject) -> None:
    """Until the broker has closed its ends, so that the next measurement does not pay for them."""
    end = time.monotonic() + _GONE_SECONDS
    folder = Path(f"/proc/{subject.server.pid}/fd")
    while len(os.listdir(folder)) > subject.scale.crowd // 2 + 500 and time.monotonic() < end:
        time.sleep(0.05)
