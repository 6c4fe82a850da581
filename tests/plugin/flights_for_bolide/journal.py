"""A dispatcher: a line in a file for each record. It fails while a file `broken`, and hangs while `stuck`, is there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bolide.layout.record import Record


class Journal:
    from_first = True

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.folder = Path(settings["storePathRootDir"]).with_name("journal")
        self.folder.mkdir(exist_ok=True)

    def dispatch(self, records: Sequence[Record]) -> None:
        while (self.folder / "stuck").exists():
            time.sleep(0.01)
        if (self.folder / "broken").exists():
            raise RuntimeError("the journal is broken")
        with (self.folder / "lines").open("a") as lines:
            lines.writelines(f"{record.topic} {record.queue_offset} {record.body.decode()}\n" for record in records)

    def close(self) -> None:
        (self.folder / "closed").touch()
