"""Extension of Bolide of the request for runtime information (28): the state of a store that a command is copying.

With the field `bolideStorePosition`, a broker of Bolide writes the tables that it otherwise writes every few seconds,
and adds the keys below to its response, which it sends once the tables are on disk. A broker never writes the copy:
the command reads the files of the store on the broker's machine. So the request gives its sender no access to the disk.
RocketMQ's brokers ignore the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bolide.remoting.command import Command
from bolide.remoting.headers.decode import java_int

_FIELD: Final = "bolideStorePosition"
_ROOT: Final = "storePosition_root"
_RUN: Final = "storePosition_run"
_CUTS: Final = "storePosition_truncations"
_BEGIN: Final = "storePosition_begin"
_WRITTEN: Final = "storePosition_written"
_SYNCED: Final = "storePosition_synced"


class StorePosition(Struct, frozen=True):
    """The store of a running broker. Offsets are physical offsets of its log."""

    root: str
    """Path of the folder on the broker's machine, as in its settings."""
    run: int
    """Number of the broker's run, as in the file `abort`."""
    cuts: int
    """Number of truncations of the log in this run."""
    begin: int
    """Start of the oldest log file that has not expired."""
    written: int
    """End of the log: the kernel has all bytes before it. The tables and the files derived from the log, as they were
    at any earlier time, do not refer to later records."""
    synced: int
    """Offset up to which the log is on disk."""

    def table(self) -> dict[str, str]:
        """Return the keys to add to the response."""
        return {
            _ROOT: self.root,
            _RUN: str(self.run),
            _CUTS: str(self.cuts),
            _BEGIN: str(self.begin),
            _WRITTEN: str(self.written),
            _SYNCED: str(self.synced),
        }


def position_ext() -> dict[str, str]:
    """Return the field to send."""
    return {_FIELD: "true"}


def asks_for_position(request: Command) -> bool:
    """Return whether a request for runtime information has the field."""
    return request.ext().get(_FIELD) == "true"


def position_of(table: Mapping[str, str]) -> StorePosition | None:
    """Return the position in a response, or None if the broker does not have the extension."""
    numbers = [java_int(table.get(key, ""), 63) for key in (_RUN, _CUTS, _BEGIN, _WRITTEN, _SYNCED)]
    run, cuts, begin, written, synced = numbers
    if run is None or cuts is None or begin is None or written is None or synced is None or not table.get(_ROOT):
        return None
    return StorePosition(table[_ROOT], run, cuts, begin, written, synced)
