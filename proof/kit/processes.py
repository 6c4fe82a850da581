"""A child process with a log: wait for the line that says ready, talk to it, stop it."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from proof.kit.children import start
from proof.kit.waiting import PROCESS_PATIENCE, wait_until

READY: Final = "ready "
"""Begins the line in which a process of Bolide reports its address."""
_JOIN_SECONDS: Final = 5.0
_LAST_BYTES: Final = 4000
_LAST_LINES: Final = 20


class ChildProcess:
    """A child process that leads a process group, so that signals reach its children and Ctrl-C does not reach it.

    Its output is appended to `log`. `environment` adds variables; None removes one. A `fed` child has a pipe as its
    standard input: `tell` writes to it, and a child that follows it ends with this process.

    With `heard`, only errors go to the log, or nothing if `log` is None. A thread passes each line of the other output
    to `heard`, as `readline` returns them: with its line end, and "" at the end.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path | None,
        environment: Mapping[str, str | None] | None = None,
        *,
        cwd: Path | None = None,
        fed: bool = False,
        heard: Callable[[str], object] | None = None,
    ) -> None:
        assert log is not None or heard is not None
        self._log = log
        self._begin = log.stat().st_size if log is not None and log.exists() else 0
        variables: dict[str, str | None] = {**os.environ, **(environment or {})}
        with open(log or os.devnull, "ab") as output:
            self._child: subprocess.Popen[bytes] = start(
                command,
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=output if heard is None else subprocess.PIPE,
                stderr=subprocess.STDOUT if log is None else output,
                env={name: value for name, value in variables.items() if value is not None},
                cwd=cwd,
                start_new_session=True,
            )
        self._reader: threading.Thread | None = None
        if heard is not None:
            self._reader = threading.Thread(target=self._read, args=(heard,), name=f"read {self.pid}", daemon=True)
            self._reader.start()

    def _read(self, heard: Callable[[str], object]) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            heard(line.decode("utf-8", "replace"))
        heard("")

    @property
    def log(self) -> Path:
        """File of its output."""
        assert self._log is not None
        return self._log

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the child has not ended yet."""
        return self._child.poll() is None

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal, or None while it runs."""
        return self._child.poll()

    def output(self) -> str:
        """Return its log since its start."""
        with self.log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode("utf-8", "replace")

    def last_words(self, lines: int = 3) -> str:
        """Return the last lines of its log, as one line."""
        words = self.output().strip().splitlines()[-lines:]
        return " | ".join(words) or f"it wrote nothing to {self.log}"

    def wait_ready(self, text: str = READY, seconds: float = PROCESS_PATIENCE) -> str:
        """Wait for the line of its log that contains `text`, and return it.

        Raises AssertionError with the output if the child ends before, or does not write the line within `seconds`; the
        child is killed then.
        """
        found: list[str] = []

        def written() -> bool:
            running = self.running
            found.extend(line for line in self.output().splitlines(keepends=True) if text in line and line[-1] == "\n")
            if not found and not running:
                raise AssertionError(f"{self._child.args!r} ended ({self.status}):\n{self.output()[-_LAST_BYTES:]}")
            return bool(found)

        try:
            wait_until(written, f"{text!r} in {self.log}", seconds)
        except BaseException:  # Ctrl-C too: the caller has no reference to the child yet
            self.kill()
            raise
        return found[0].rstrip()

    def tell(self, line: str) -> bool:
        """Write a line to its standard input. Returns False if it has ended."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(f"{line}\n".encode())
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError):  # the pipe has no reader, or is closed
            return False
        return True

    def close_input(self) -> None:
        """End its standard input, if it has one."""
        if self._child.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended before it read everything
                self._child.stdin.close()

    def signal(self, number: signal.Signals) -> bool:
        """Send it a signal. Returns False if it has ended."""
        if not self.running:
            return False
        self._child.send_signal(number)
        return True

    def wait(self, seconds: float = PROCESS_PATIENCE) -> int:
        """Wait for its end and return its exit status. Kills it and raises AssertionError if it does not end."""
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self._child.args!r} did not end within {seconds:g} s") from None
        return self._close()

    async def ended(self) -> int:
        """Wait for its end, while the event loop runs, and return its exit status."""
        while self.running:
            await asyncio.sleep(0.02)
        return self._close()

    def stop(self, seconds: float = PROCESS_PATIENCE) -> int:
        """Like `wait`, after SIGTERM."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """Send SIGKILL to the child and all its children, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        self._close()

    def pause(self) -> None:
        """Stop it and its children until `resume`."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        os.killpg(self.pid, signal.SIGCONT)

    def _close(self) -> int:
        """Read the rest of its output, close the pipes, and return its exit status."""
        if self._reader is not None and self._child.stdout is not None:
            self._reader.join(_JOIN_SECONDS)  # a grandchild may keep the pipe open
            self._child.stdout.close()
        self.close_input()
        return self._child.wait()


class ReportingProcess(ChildProcess):
    """A child that reports JSON objects and its ready line on its standard output, and follows its standard input."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path) -> None:
        self.name = name
        self.said: dict[str, Any] = {}
        """The newest value of each key that it reported."""
        self.ready = ""
        """Its ready line, without the first word."""
        super().__init__(command, folder / f"{name}.log", fed=True, heard=self._hear)

    def _hear(self, line: str) -> None:
        if line.startswith("{"):
            self.said |= json.loads(line)
        elif line.startswith(READY):
            self.ready = line.removeprefix(READY).strip()

    def failure(self) -> str:
        """Return a sentence if it ended with another status than 0, otherwise ""."""
        return self.how_it_ended() if self.status else ""

    def how_it_ended(self) -> str:
        """Return a sentence with its exit status and its last words."""
        return f"{self.name} ended with status {self.status}: {self.last_words()}"


class AnsweringProcess(ChildProcess):
    """A program that reads one command per line and writes a JSON object in one line after each.

    Other lines of its output are ignored, because libraries print some.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path | None = None,
        environment: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ignored: deque[str] = deque(maxlen=_LAST_LINES)
        super().__init__(command, log, environment, cwd=cwd, fed=True, heard=self._hear)

    def _hear(self, line: str) -> None:
        if not line or line.startswith("{"):
            self._answers.put(line)
        else:
            self._ignored.append(line.strip())

    def last_words(self, lines: int = _LAST_LINES) -> str:
        """Return the last ignored lines, or the last lines of its log, as one line."""
        return " | ".join(self._ignored) if self._log is None else super().last_words(lines)

    def ask(self, command: str, seconds: float = PROCESS_PATIENCE) -> dict[str, Any]:
        """Run one command and return its object. Raises AssertionError if the program ends or writes none in time."""
        self.tell(command)
        return self.answer(command, seconds)

    def answer(self, what: str, seconds: float = PROCESS_PATIENCE) -> dict[str, Any]:
        """Return the next object. `what` is for the error."""
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            raise AssertionError(f"no answer within {seconds:g} s to {what}: {self.last_words()}") from None
        if not line:
            self.wait()
            raise AssertionError(f"the program ended ({self.status}) at {what}: {self.last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
