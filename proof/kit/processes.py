"""Server processes for tests and the bench: a free port, a log file, a wait for the line that says ready."""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proof.kit.children import start

_POLL_SECONDS = 0.02
_FIRST_PORT, _LAST_PORT = 15_000, 32_000
_SHARES = 16
SMALL_LOG = {"mappedFileSizeCommitLog": str(64 << 20)}
"""Ours takes the room of a log file when it makes it: 1 GiB as shipped, which dozens of brokers would not find."""


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll a condition until it holds; AssertionError naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(_POLL_SECONDS)


def _share_of_ports() -> range:
    """This process's part of the ports below those that the kernel gives to outgoing connections.

    Workers of one test run have a part each, so that none takes what another has found free and not opened yet.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    width = (_LAST_PORT - _FIRST_PORT) // _SHARES
    first = _FIRST_PORT + width * (int(worker) % _SHARES if worker else random.randrange(_SHARES))
    return range(first, first + width)


_CHOICE = threading.Lock()
_MY_PORTS = _share_of_ports()
_GIVEN: deque[int] = deque(maxlen=len(_MY_PORTS) // 2)


def free_ports(*distances: int) -> int:
    """A port that is free on 127.0.0.1, together with those at the given distances from it.

    No port is given a second time before half of this process's part were: who has it may not have opened it yet.
    """
    with _CHOICE:
        for port in random.sample(_MY_PORTS, len(_MY_PORTS)):
            wanted = {port, *(port + distance for distance in distances)}
            if wanted.issubset(_MY_PORTS) and wanted.isdisjoint(_GIVEN) and all(map(_is_free, wanted)):
                _GIVEN.extend(wanted)
                return port
    raise OSError(f"found no free port with free neighbours {distances}")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class ServerProcess:
    """A child process whose output goes to a file. `environment` adds variables; None takes one away."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str | None] | None = None) -> None:
        self.log = log
        variables: dict[str, str | None] = {**os.environ, **(environment or {})}
        with log.open("wb") as output:
            # The child leads a group of its own, so that stopping reaches the children it may have too.
            self._child = start(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in variables.items() if value is not None},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the child has not ended yet."""
        return self._child.poll() is None

    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_ready(self, ready_text: str, seconds: float = 180.0) -> None:
        """Wait until the output holds a text; AssertionError with the output if the child ends before."""

        def stands() -> bool:
            if ready_text in self.output():
                return True
            if not self.running:
                raise AssertionError(f"{self._child.args!r} ended ({self._child.returncode}):\n{self.output()[-4000:]}")
            return False

        try:
            until(stands, seconds, f"{ready_text!r} in {self.log}")
        except BaseException:  # Ctrl-C too: nobody else knows the child yet
            self.kill()
            raise

    def stop(self, seconds: float = 180.0) -> int:
        """SIGTERM, then wait; returns the exit status. Kills it and raises AssertionError if it does not end."""
        if self.running:
            self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self._child.args!r} did not end within {seconds:g} s of SIGTERM") from None

    def kill(self) -> None:
        """SIGKILL to the child and all its children, and wait for its end."""
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()

    def pause(self) -> None:
        """SIGSTOP: it takes no processor time until `resume`."""
        os.killpg(self._child.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        os.killpg(self._child.pid, signal.SIGCONT)
