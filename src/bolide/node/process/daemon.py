"""Runs one node as a process: loop, signals, log, the ready line, and the exit status.

Used by `run_broker`, `run_namesrv` and `run_controller`. The ready line is written to standard output, everything else
to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from bolide.errors import BolideError
from bolide.node.logs.logs import start_logging
from bolide.node.process.exit_codes import FAILED, STOPPED, STORE_FAILED, of_failed_start
from bolide.node.process.heap import keep_freed_memory
from bolide.world.lines import lines_to

log = logging.getLogger("bolide.node")
COLLECT_AFTER: Final = 50_000
"""Number of net allocated objects after which the garbage collector examines the young generation."""


class Node(Protocol):
    """A node that a process runs."""

    stopped: asyncio.Event
    failure: BaseException | None

    @property
    def address(self) -> str:
        """`ip:port` of the server."""

    async def start(self) -> None:
        """Start to serve."""

    async def stop(self) -> None:
        """Stop cleanly."""

    async def reload(self) -> None:
        """Reload files that may change at run time."""


Told = Callable[[str], None]
"""Callback that receives the reason why a server cannot start or had to stop."""


def told_to_nobody(reason: str) -> None:
    """Do nothing. Used without a supervisor: the log contains the reason."""


def run_daemon(make: Callable[[], Node], name: str, follow_stdin: bool = False, tell: Told = told_to_nobody) -> int:
    """Run one node until a signal, its failure, or (`follow_stdin`) the end of standard input. Return the exit
    status."""
    start_logging()
    try:
        with lines_to(sys.stdout) as say:
            return new_runner().run(_serve(make, name, follow_stdin, tell, say))
    except KeyboardInterrupt:
        return STOPPED


def new_runner() -> asyncio.Runner:
    """Return a runner on uvloop if it is installed, else on asyncio's loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _serve(make: Callable[[], Node], name: str, follow_stdin: bool, tell: Told, say: Told) -> int:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers on the loop
            loop.add_signal_handler(number, asked.set)
    reader = await _follow_stdin(asked) if follow_stdin else None
    try:
        node = make()
        await node.start()
    except (BolideError, OSError) as error:
        log.error("%s cannot start: %s", name, error)
        tell(str(error))
        return of_failed_start(error)
    hangups = asyncio.create_task(_reload_at_hangups(node, name, on_hangup(asked.set)))
    settle_memory()
    say(f"ready {name} {node.address}")
    waits = [asyncio.create_task(asked.wait()), asyncio.create_task(node.stopped.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in (*waits, hangups):
        wait.cancel()
    log.info("%s stops", name)
    unclean = await _stop(node, name)
    if reader is not None:
        reader.close()
    if node.failure is None:
        return FAILED if unclean else STOPPED
    tell(str(node.failure))
    return STORE_FAILED


async def _stop(node: Node, name: str) -> bool:
    """Stop the node. Return whether a write failed. The next start then repairs the store as after a crash."""
    try:
        await node.stop()
    except (BolideError, OSError) as error:
        log.error("%s could not write everything at its stop, so its next start reads more of its log: %s", name, error)
        return True
    return False


def on_hangup(stop: Callable[[], object]) -> asyncio.Event:
    """Return an event that SIGHUP sets to request a reload. In a server with a terminal, SIGHUP means that the terminal
    is lost: it calls `stop` instead, like Ctrl-C."""
    heard = asyncio.Event()
    terminal = sys.stdin is not None and sys.stdin.isatty()
    with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has neither the signal nor handlers
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, stop if terminal else heard.set)
    return heard


async def _reload_at_hangups(node: Node, name: str, heard: asyncio.Event) -> None:
    while True:
        await heard.wait()
        heard.clear()
        log.info("%s reloads its TLS files", name)
        await node.reload()


def settle_memory() -> None:
    """Keep freed memory in the process, exclude startup objects from garbage collection, and collect less often.

    A busy turn creates thousands of objects and frees them by reference count. At the default threshold of 700, the
    collector scanned them several times per turn without finding garbage (4 % of the time of a send).
    """
    keep_freed_memory()
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


async def _follow_stdin(asked: asyncio.Event) -> Any:
    """Set `asked` when the parent process ends: it holds the other end of standard input and never writes to it."""

    class UntilEof(asyncio.Protocol):
        def eof_received(self) -> None:
            asked.set()

        def connection_lost(self, error: Exception | None) -> None:
            asked.set()

    transport, _ = await asyncio.get_running_loop().connect_read_pipe(UntilEof, sys.stdin.buffer)
    return transport
