"""Asynchronous lines of standard input, which Ctrl-C can interrupt."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

CHUNK: Final = 1 << 16
AHEAD: Final = 4
"""Number of chunks to read ahead."""


async def lines_of(handle: int) -> AsyncIterator[str]:
    """Yield the lines of a file descriptor without their line ends, with invalid UTF-8 as surrogates.

    A separate thread reads and bypasses Python's buffer: a read from a terminal cannot be cancelled, and neither the
    loop nor the interpreter may wait for it when they end.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(AHEAD)

    def read() -> None:
        data = b"-"
        while data:
            room.acquire()
            try:
                data = os.read(handle, CHUNK)
            except OSError:  # a closed terminal also ends the input
                data = b""
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:
                return  # the loop is closed

    threading.Thread(target=read, name="standard input", daemon=True).start()
    rest = b""
    while data := await arrived.get():
        room.release()
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield _text(line)
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
