"""The demo's child processes: each reports its progress as JSON lines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from proof.kit.processes import ReportingProcess
from proof.kit.waiting import wait_until


class Part(ReportingProcess):
    """A child process `python -m MODULE ...` and the newest value of everything it reported."""

    def __init__(self, name: str, folder: Path, module: str, *arguments: object) -> None:
        super().__init__(name, [sys.executable, "-m", module, *map(str, arguments)], folder)

    def get(self, key: str, default: Any = 0) -> Any:
        """Return the newest value of a key."""
        return self.said.get(key, default)

    def tell_to_stop(self) -> None:
        """Write a line to its standard input: finish and write the result."""
        self.tell("stop")
        self.close_input()

    def finished(self, seconds: float) -> int:
        """Wait for its end and return its exit status. Raises SystemExit if it does not end in time."""
        try:
            return self.wait(seconds)
        except AssertionError:
            raise SystemExit(f"{self.name} did not end within {seconds:.0f} s; its log is {self.log}") from None

    def end(self) -> None:
        """Stop it, whatever it does."""
        with suppress(AssertionError):  # it is killed if it does not end
            self.stop(20)


def until(
    condition: Callable[[], object],
    seconds: float,
    what: str,
    parts: list[Part],
    tick: Callable[[], None] | None = None,
) -> None:
    """Wait for a condition. Raises SystemExit with `what`, or with the part that failed."""

    def holds() -> bool:
        if condition():
            return True
        for part in parts:
            if part.failure():
                raise SystemExit(part.failure())
        if tick is not None:
            tick()
        return False

    try:
        wait_until(holds, what, seconds)
    except AssertionError as error:
        raise SystemExit(str(error)) from None


def broker_pid(standalone: int) -> int:
    """Process id of the broker below a standalone process. Raises SystemExit when there is none."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        if int(parent) == standalone and "bolide.node.processes broker" in command:
            return int(pid)
    raise SystemExit("no broker process runs below the standalone process")
