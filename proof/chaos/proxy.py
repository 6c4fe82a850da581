"""A proxy on one way between two machines: it delays, drops, and cuts one direction or both.

What is cut is not closed: the bytes wait in the kernel, as behind a network that is gone, and arrive once it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

PIECE: Final = 64 * 1024
CONNECT_S: Final = 5.0


class Proxy:
    """Listens at one address and passes to another."""

    def __init__(
        self, name: str, listen: tuple[str, int], target: tuple[str, int], shown: dict[bytes, bytes] | None = None
    ) -> None:
        """`shown`: addresses that the target names, each with that of the proxy before it, which is as long."""
        self.name = name
        self.listen = listen
        self.target = target
        self.shown = shown or {}
        self.delay = 0.0
        """Seconds that every piece waits."""
        self.passed = 0
        """Bytes in both directions."""
        self._open = {"to": asyncio.Event(), "from": asyncio.Event()}
        self._server: asyncio.Server | None = None
        self._pairs: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self.heal()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accepted, *self.listen)

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._pairs)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- faults

    def cut(self, ways: str) -> None:
        """Let nothing pass: "to" the target, "from" it, or "both"."""
        for way, open_ in self._open.items():
            if ways in (way, "both"):
                open_.clear()

    def heal(self) -> None:
        """Pass everything, at once."""
        self.delay = 0.0
        for open_ in self._open.values():
            open_.set()

    def drop(self) -> int:
        """End every connection by RST at both ends; how many."""
        for writers in self._pairs.values():
            for writer in writers:
                writer.transport.abort()
        return len(self._pairs)

    # -- what passes

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pairs[task] = [writer]
        try:
            await self._open["to"].wait()  # nobody is reached while the way there is cut
            async with asyncio.timeout(CONNECT_S):
                behind, beyond = await asyncio.open_connection(*self.target)
            self._pairs[task].append(beyond)
            await asyncio.gather(self._pass(reader, beyond, "to"), self._pass(behind, writer, "from"))
        except OSError:
            writer.transport.abort()  # as if the target had refused
        finally:
            for one in self._pairs.pop(task):
                one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        while data := await reader.read(PIECE):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._open[way].wait()
            for behind, before in self.shown.items() if way == "from" else ():
                data = data.replace(behind, before)
            writer.write(data)
            await writer.drain()
            self.passed += len(data)
        await self._open[way].wait()
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()
