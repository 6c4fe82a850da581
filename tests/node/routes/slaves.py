"""The tables of a slave that follow those of a master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bolide.node.routes.master_tables import MasterTables
from bolide.world.real import THE_WORLD
from proof.kit.waiting import until
from tests.broker.operator.followers import Followers

QUICK = (0.02, 0.02)


class Slave:
    """A slave's tables, kept as a master's; its log ends where the test says."""

    def __init__(self, folder: Path) -> None:
        self.parts = Followers(folder)
        self.log_end = 1 << 40
        self.turns = 0
        self.tables = MasterTables(
            self.parts.following, "127.0.0.1:1", lambda: self.log_end, self._turn, None, THE_WORLD, QUICK
        )

    def _turn(self) -> None:
        self.turns += 1

    async def rounds(self, count: int = 1) -> None:
        """Wait for this many rounds from now on in which everything was told."""
        wanted = self.tables.rounds + count
        await until(lambda: self.tables.rounds >= wanted)


@asynccontextmanager
async def slave(folder: Path, master: str) -> AsyncIterator[Slave]:
    made = Slave(folder)
    made.tables.master_is(master)
    made.tables.start()
    try:
        yield made
    finally:
        await made.tables.stop()
        made.parts.close()
