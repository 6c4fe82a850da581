"""`bolide top`: rates, lag and the slowest groups of a cluster, live in a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import typer

from bolide.cli.cluster.top_figures import ORDERS, Round, Rounds
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import LEAST, LONGEST
from bolide.errors import ArgumentError, BolideError
from bolide.world.tasks import end_tasks

if TYPE_CHECKING:
    from rich.live import Live

    from bolide.admin.client import Admin
    from bolide.cli.cluster.top_screen import View

SHOWN: Final = 20
"""Number of groups in a printed round."""
SPECIAL: Final = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]")
"""Escape sequences that terminals send for arrows and function keys. Their characters are not separate keys."""


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(top)


def top(
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    interval: float = typer.Option(2.0, "--interval", min=LEAST, max=LONGEST, help="Seconds between two rounds."),
    count: int | None = typer.Option(
        None, "--count", min=1, help="Print this many rounds and exit, as without a terminal."
    ),
    sort: str = typer.Option(ORDERS[0], "--sort", help=f"Order of the groups: {', '.join(ORDERS)}."),
    part: str = typer.Option("", "--filter", help="Only groups whose name contains this."),
    system: bool = typer.Option(False, "--system", help="Also groups that RocketMQ itself uses."),
    as_json: bool = JsonFlag,
) -> None:
    """Show rates, lag and the slowest groups, live in a terminal; else print one round. Keys: q, s, /, p."""
    with boundary():
        if sort not in ORDERS:
            raise ArgumentError(f"--sort {sort} is not allowed: it must be one of {', '.join(ORDERS)}")
        from bolide.cli.cluster.top_screen import View

        view = View(order=sort, part=part)
        live = count is None and not as_json and sys.stdin.isatty() and sys.stdout.isatty()

        async def run(admin: Admin) -> None:
            rounds = Rounds(admin, time.time, cluster=cluster, system=system)
            if live:
                await _draw(rounds, view, interval)
            else:
                await _print(rounds, view, interval, count or 1, as_json)

        call(namesrv, run)


async def _print(rounds: Rounds, view: View, interval: float, count: int, as_json: bool) -> None:
    for number in range(count):
        if number:
            await asyncio.sleep(interval)
        # A later round may succeed. If the first round fails, the address may be wrong.
        last = number + 1 == count
        try:
            latest = await rounds.ask()
        except BolideError as error:
            if last or not number:
                raise
            output.note(str(error))
            continue
        if as_json:
            output.print_json_line(latest.as_json(view.order, view.part))
        else:
            _print_tables(latest, view)
        if latest.failure is not None:
            if last:
                raise latest.failure
            output.note(str(latest.failure))


def _print_tables(latest: Round, view: View) -> None:
    described = latest.as_json(view.order, view.part)
    brokers = [tuple(each.values()) for each in described["brokers"]]
    output.table("Brokers", ("Cluster", "Broker", "Id", "Role", "Put/s", "Get/s", "State"), brokers, False)
    groups = [(each.group, each.lag, each.growth) for each in latest.slowest(view.order, SHOWN, view.part)]
    output.table(f"Groups: lag {latest.lag:,}", ("Group", "Lag", "Lag/s"), groups, False)
    sys.stdout.flush()


async def _draw(rounds: Rounds, view: View, interval: float) -> None:
    """Draw rounds until q is pressed. Rounds and keys do not wait for each other."""
    from rich.console import Console
    from rich.live import Live

    changed = asyncio.Event()
    latest = _Latest()
    with Live(console=Console(), screen=True, auto_refresh=False) as screen, _keys(view, changed):
        asking = asyncio.create_task(_ask(rounds, view, interval, latest, changed))
        try:
            while not view.ended:
                changed.clear()
                _show(screen, latest, view)
                await changed.wait()
        finally:
            await end_tasks([asking])


class _Latest:
    """The last successful round, and the error of the round after it."""

    def __init__(self) -> None:
        self.round: Round | None = None
        self.trouble = ""


async def _ask(rounds: Rounds, view: View, interval: float, latest: _Latest, changed: asyncio.Event) -> None:
    while True:
        if not view.paused:
            try:
                latest.round = await rounds.ask()
                latest.trouble = str(latest.round.failure or "")
            except BolideError as error:
                latest.trouble = str(error)
            changed.set()
        await asyncio.sleep(interval)


def _show(screen: Live, latest: _Latest, view: View) -> None:
    from rich.text import Text

    from bolide.cli.cluster.top_screen import picture

    width, height = screen.console.size
    lines = picture(latest.round, view, latest.trouble, width=width, height=height)
    screen.update(Text("\n", no_wrap=True).join(lines), refresh=True)


@contextlib.contextmanager
def _keys(view: View, changed: asyncio.Event) -> Iterator[None]:
    """Pass key presses to `view` with echo off. Restores the terminal on exit."""
    import termios
    import tty

    loop = asyncio.get_running_loop()
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed() -> None:
        typed = os.read(keyboard, 1024).decode(errors="replace")
        if not typed:  # the terminal was closed
            view.ended = True
        for key in SPECIAL.sub("", typed):
            view.press(key)
        changed.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, pressed)
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
