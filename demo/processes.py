"""The demo's child processes: each reports its progress as JSON lines, which a thread collects."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Part:
    """A child process `python -m MODULE ...` and the newest value of everything it said."""

    def __init__(self, name: str, folder: Path, module: str, *arguments: object) -> None:
        self.name = name
        self.said: dict[str, Any] = {}
        self.log = folder / f"{name}.log"
        self._log = self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *(str(argument) for argument in arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._thread = threading.Thread(target=self._read, name=f"read {name}", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode("utf-8", "replace").strip()
            if text.startswith("{"):
                self.said.update(json.loads(text))
            elif text.startswith("ready "):
                self.said["ready"] = text

    def get(self, key: str, default: Any = 0) -> Any:
        """The newest value of a key."""
        return self.said.get(key, default)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def tell_to_stop(self) -> None:
        """A line on its standard input: finish and write the result."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"stop\n")
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already; its exit status tells

    def wait(self, seconds: float) -> int:
        """Its exit status. Raises SystemExit when it does not end in time."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{self.name} did not end within {seconds:.0f} s; its log is {self.log}") from None
        self._thread.join(5)
        self._log.close()
        return status

    def end(self) -> None:
        """Stop it for good, however it is."""
        if self.running:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self._thread.join(5)
            self.process.stdout.close()
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass  # nobody reads it any more
        self._log.close()


def until(condition: Any, seconds: float, what: str, parts: list[Part], tick: Any = None) -> None:
    """Wait for a condition; SystemExit names what was waited for, or the part that ended before its time."""
    deadline = time.monotonic() + seconds
    while not condition():
        for part in parts:
            if not part.running and part.process.returncode:
                tail = part.log.read_text(errors="replace").strip().splitlines()[-3:]
                said = " | ".join(tail) or f"it said nothing in {part.log}"
                raise SystemExit(f"{part.name} ended with status {part.process.returncode}: {said}")
        if time.monotonic() > deadline:
            raise SystemExit(f"gave up after {seconds:.0f} s waiting for {what}")
        if tick is not None:
            tick()
        time.sleep(0.1)


def broker_pid(standalone: int) -> int:
    """Process id of the broker below a standalone process. Raises SystemExit when there is none."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        if int(parent) == standalone and "bolide.node.processes broker" in command:
            return int(pid)
    raise SystemExit("no broker process runs below the standalone process")
