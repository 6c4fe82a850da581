"""Child process of `bolide standalone`: `python -m bolide.node.processes KIND FLAGS`, where KIND is broker, namesrv or
controller, and FLAGS is JSON.

A child ends with its parent: it reads its standard input, which the parent holds open.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Final

from bolide.interpreter import python
from bolide.node.process.daemon import Told
from bolide.world.lines import lines_to

READY: Final = "ready "
FAILED: Final = "failed "
"""Prefix of the line in which a child reports to its parent why it cannot start or had to stop."""


def main(arguments: list[str]) -> int:
    """Run one server. Return its exit status. Reports the reason of a failure to its parent on standard output."""
    with lines_to(sys.stdout) as say:
        return _run(arguments, lambda reason: say(FAILED + " ".join(reason.split())))


def _run(arguments: list[str], tell: Told) -> int:
    kind, flags = arguments[0], json.loads(arguments[1])
    if kind == "broker":
        from bolide.node.broker_process import run_broker

        return run_broker(flags, follow_stdin=True, tell=tell)
    if kind == "controller":
        from bolide.node.controller.node import run_controller

        return run_controller(flags, follow_stdin=True, tell=tell)
    from bolide.node.namesrv import run_namesrv

    return run_namesrv(flags, follow_stdin=True, tell=tell)


class Child:
    """One supervised server: its configuration, and its process while it runs.

    `port_option`: command line option that selects its port.
    """

    def __init__(self, kind: str, name: str, flags: dict[str, object], port_option: str) -> None:
        self.kind = kind
        self.name = name
        self.flags = flags
        self.port_option = port_option
        self.address = ""
        self.reason = ""
        """Reported reason why it could not start or had to stop, or "" if it reported none."""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process; `ready` waits for it to serve."""
        self.reason = ""
        self.process = await asyncio.create_subprocess_exec(
            *python("-m", "bolide.node.processes", self.kind, json.dumps(self.flags)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal reaches only the parent, which stops the children in order
        )

    async def ready(self) -> bool:
        """Wait until the server is ready. Return False if the process exits first (`returncode` is then its status)."""
        process = self.process
        assert process is not None and process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode("utf-8", "replace").strip()
            if text.startswith(READY):
                self.address = text.rsplit(" ", 1)[1]
                return True
            self._hear(text)
        await process.wait()
        return False

    def _hear(self, text: str) -> None:
        if text.startswith(FAILED):
            self.reason = text.removeprefix(FAILED)
            if "listenPort" in self.reason:
                self.reason += f" ({self.port_option})"

    def terminate(self) -> None:
        """Request a clean stop."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()

    def reload(self) -> None:
        """Request a reload of TLS files."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kill the process."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def ended(self) -> int:
        """Wait for the exit. Return the exit status, negative for a signal."""
        process = self.process
        assert process is not None and process.stdout is not None
        status = await process.wait()
        if not self.reason:
            for line in (await process.stdout.read()).decode("utf-8", "replace").splitlines():
                self._hear(line)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
