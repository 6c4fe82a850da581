"""Rows of many connections that do little: heartbeats, held pulls, and how soon a message reaches one that waits."""

import json
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.generator import program
from bench.machine import Used, Watch, anonymous_mb, java_memory_mb, used
from bench.stopping import Failed
from bench.subject import Subject

_GROUP_SIZE = 100
_QUIET_SECONDS = 0.2
_QUIET_SHARE = 0.1
_MOST_QUIET_SECONDS = 5.0
_GONE_SECONDS = 20.0
LATENCY_RATE = 100


class Crowd:
    """The program `crowd.c`: takes a command a line."""

    def __init__(self, port: int, connections: int, topic: str) -> None:
        words = ["--port", str(port), "--connections", str(connections), "--topic", topic]
        words += ["--groups", str(max(connections // _GROUP_SIZE, 1))]
        self._child = subprocess.Popen(
            [str(program("crowd")), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.kill()
        self._child.communicate()

    def ask(self, command: str) -> dict[str, float]:
        """Run one command; raises Failed where the program ended."""
        assert self._child.stdin is not None and self._child.stdout is not None and self._child.stderr is not None
        try:
            self._child.stdin.write(f"{command}\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"the crowd ended at {command!r}: {self._child.stderr.read().strip() or 'it said nothing'}")
        return dict(json.loads(line))

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the program."""
        return used(self._child.pid).seconds


def latency(subject: Subject) -> dict[str, float]:
    """From a send to its arrival at the one held pull."""
    topic = subject.new_name("latency")
    watch = Watch(subject.server.pid)
    with Crowd(subject.server.port, 1, topic) as crowd:
        crowd.ask("connect")
        crowd.ask("prepare")
        seconds = subject.scale.watch
        seen = crowd.ask(f"latency {LATENCY_RATE} {seconds}")
        return {**seen, **watch.end(seen["count"], crowd.cpu_seconds)}


def connections(subject: Subject) -> dict[str, float]:
    """Open all, send one heartbeat of a consumer on each; what each costs in time, processor time and memory."""
    topic, count = subject.new_name("crowd"), subject.scale.crowd
    before = _memory_mb(subject)
    watch, spent = Watch(subject.server.pid), used(subject.server.pid)
    with Crowd(subject.server.port, count, topic) as crowd:
        opened = crowd.ask("connect")
        beaten = crowd.ask("heartbeat")
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
        crowd.ask("connect")
        crowd.ask("prepare")
        crowd.ask("hold")
        _until_quiet(subject, crowd)
        seconds = subject.scale.watch
        before = used(subject.server.pid)
        rested = crowd.ask(f"rest {seconds}")
        idle = used(subject.server.pid) - before
        if rested["answers"]:
            raise Failed(f"{subject.name} answered {rested['answers']:.0f} held pulls without a message")
        before = used(subject.server.pid)
        woken = crowd.ask("wake")
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
        crowd.ask(f"rest {_QUIET_SECONDS}")
        if (used(subject.server.pid) - before).seconds < _QUIET_SHARE * _QUIET_SECONDS:
            return


def _until_gone(subject: Subject) -> None:
    """Until the broker has closed its ends, so that the next measurement does not pay for them."""
    end = time.monotonic() + _GONE_SECONDS
    folder = Path(f"/proc/{subject.server.pid}/fd")
    while len(os.listdir(folder)) > subject.scale.crowd // 2 + 500 and time.monotonic() < end:
        time.sleep(0.05)
