"""A process around one node: loop, signals, log, the line that says it is ready, and the exit status.

Used by `run_broker` and `run_namesrv`. The line goes to standard output, everything else to standard error.
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
"""Objects made and not yet freed after which the collector looks at the young ones."""


class Node(Protocol):
    """What a daemon runs."""

    stopped: asyncio.Event
    failure: BaseException | None

    @property
    def address(self) -> str:
        """`ip:port` under which it serves."""

    async def start(self) -> None:
        """Begin to serve."""

    async def stop(self) -> None:
        """Stop cleanly."""

    async def reload(self) -> None:
        """Reload what may change outside while it runs."""


Told = Callable[[str], None]
"""Takes the reason why a daemon cannot start or had to stop, one sentence."""


def told_to_nobody(reason: str) -> None:
    """For a daemon without a supervisor: its log has the reason."""


def run_daemon(make: Callable[[], Node], name: str, follow_stdin: bool = False, tell: Told = told_to_nobody) -> int:
    """Run one node until a signal, its own failure, or (`follow_stdin`) the end of standard input; the exit status."""
    start_logging()
    try:
        with lines_to(sys.stdout) as say:
            return new_runner().run(_serve(make, name, follow_stdin, tell, say))
    except KeyboardInterrupt:
        return STOPPED


def new_runner() -> asyncio.Runner:
    """A runner on uvloop where it is installed, else on asyncio's own loop."""
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
    """Stop the node. Return whether something could not be written: the next start repairs it as after a crash."""
    try:
        await node.stop()
    except (BolideError, OSError) as error:
        log.error("%s could not write everything at its stop, so its next start reads more of its log: %s", name, error)
        return True
    return False


def on_hangup(stop: Callable[[], object]) -> asyncio.Event:
    """What SIGHUP sets: for a daemon without a terminal, which it tells to reload. One that was started from a terminal
    has lost it then, and stops by `stop` as by Ctrl-C.
    """
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
    """Keep what is freed; let the collector look for cycles seldom, and never among what lives as long as the process.

    A busy turn makes thousands of objects and frees them by count; at the default of 700 the collector walked all of
    them several times a turn and found nothing (4 % of the time of a send).
    """
    keep_freed_memory()
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


async def _follow_stdin(asked: asyncio.Event) -> Any:
    """End with the process that started us: it holds the other end of our standard input and never writes to it."""

    class UntilEof(asyncio.Protocol):
        def eof_received(self) -> None:
            asked.set()

        def connection_lost(self, error: Exception | None) -> None:
            asked.set()

    transport, _ = await asyncio.get_running_loop().connect_read_pipe(UntilEof, sys.stdin.buffer)
    return transport
