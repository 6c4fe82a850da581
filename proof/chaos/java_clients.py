"""Java's client among the clients of a run: processes of `proof/interop/java/JournalClient.java`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proof.attack.clients import Client
from proof.attack.producing import NOBODY_KNOWS, REFUSALS
from proof.attack.servers import LEVELS
from proof.interop.java_processes import journal_client


def rejections() -> tuple[str, str]:
    """Return the response codes of rejected messages, and the remarks after which such a message may be stored."""
    return ",".join(map(str, sorted(REFUSALS))), "|".join(NOBODY_KNOWS)


class JavaClient(Client):
    """A Java producer if its setup has a `first` number, else a Java consumer."""

    def __init__(self, name: str, setup: dict[str, Any], folder: Path) -> None:
        super().__init__(name, "", setup, folder)
        self._home = folder / f"{name}-home"
        self._home.mkdir()

    def _command(self, setup: dict[str, Any]) -> list[str]:
        """A producer sends with the first ten delay levels."""
        words = [setup["namesrv"], setup["journal"], setup["name"], str(setup["seed"])]
        if "first" not in setup:
            return journal_client(self._home, "consume", *words)
        levels = ",".join(level.removesuffix("s") for level in LEVELS.split()[:10])
        numbers = [str(round(setup["pause"] * 1000)), str(setup["first"]), str(setup["stride"])]
        words += [*numbers, ",".join(setup["brokers"]), levels, *rejections()]
        return journal_client(self._home, "produce", *words)
