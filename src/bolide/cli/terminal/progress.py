"""Progress of a long job on standard error, with its rate and remaining time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from bolide.cli.terminal import output
from bolide.job_progress import JobProgress


class Every:
    """Prints at most one text per `seconds` on standard error, and the first one immediately unless `late`. Create and
    call it in an event loop."""

    def __init__(self, seconds: float, *, late: bool = False) -> None:
        self._seconds = seconds
        self._next = asyncio.get_running_loop().time() + seconds if late else 0.0

    def __call__(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next:
            self._next = now + self._seconds
            output.note(text)


def shower() -> Callable[[JobProgress], None]:
    """Return a function that shows progress: on a terminal one line that is overwritten, otherwise a line every ten
    seconds."""
    terminal = sys.stderr.isatty()
    stage, second = "", -10.0

    def show(now: JobProgress) -> None:
        nonlocal stage, second
        finished = now.done >= now.total
        if not terminal and not finished and now.stage == stage and now.seconds < second + 10:
            return
        stage, second = now.stage, now.seconds
        if now.unit == "bytes":
            text = f"{now.stage}: {now.done / 1e6:,.0f} of {now.total / 1e6:,.0f} MB, {now.rate / 1e6:,.0f} MB/s"
        else:
            text = f"{now.stage}: {now.done:,} of {now.total:,} {now.unit}, {now.rate:,.0f}/s"
        text += "" if finished else f", {now.seconds_left:,.0f} s left" if now.rate else ""
        sys.stderr.write(f"\r{text}\x1b[K" + ("\n" if finished else "") if terminal else f"{text}\n")
        sys.stderr.flush()

    return show
