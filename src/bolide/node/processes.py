"""The children of `bolide standalone`: `python -m bolide.node.processes broker|namesrv FLAGS`, FLAGS being JSON.

A child ends with its parent: it follows its standard input, which the parent holds open.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Final

READY: Final = "ready "


def main(arguments: list[str]) -> int:
    """Run one daemon; returns its exit status."""
    kind, flags = arguments[0], json.loads(arguments[1])
    if kind == "broker":
        from bolide.node.broker import run_broker

        return run_broker(flags, follow_stdin=True)
    from bolide.node.namesrv import run_namesrv

    return run_namesrv(flags, follow_stdin=True)


class Child:
    """One supervised daemon: how to start it, and the process while it runs."""

    def __init__(self, kind: str, name: str, flags: dict[str, object]) -> None:
        self.kind = kind
        self.name = name
        self.flags = flags
        self.address = ""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process; `ready` waits for it to serve."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bolide.node.processes",
            self.kind,
            json.dumps(self.flags),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal reaches the parent alone, which stops them in order
        )

    async def ready(self) -> bool:
        """True once it serves; False when it ended first (its status is then `returncode`)."""
        process = self.process
        assert process is not None and process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode("utf-8", "replace").strip()
            if text.startswith(READY):
                self.address = text.rsplit(" ", 1)[1]
                return True
        await process.wait()
        return False

    def terminate(self) -> None:
        """Ask it to stop cleanly."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()

    def reload(self) -> None:
        """Ask it to reload what may change outside."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def ended(self) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        assert self.process is not None
        return await self.process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
