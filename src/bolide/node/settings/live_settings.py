"""Settings changed while the broker runs (UPDATE_BROKER_CONFIG): checked all together, applied, and kept in its file.

RocketMQ changes fields of BrokerConfig under the running threads and rewrites the file it was started with
(Configuration.update). Here a key changes only where everybody who reads it is told (`RELOADABLE`); for the others the
answer says that it takes a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from bolide.broker.core.options import RELOADABLE, BrokerOptions
from bolide.errors import BolideError, ConfigError
from bolide.node.settings.config import convert
from bolide.remoting.properties_text import read_properties_utf8
from bolide.store.files import Files

ORIGIN: Final = "the update"


class LiveSettings:
    """The options in force. `path` is the file the broker was started with, "" for none."""

    def __init__(self, options: BrokerOptions, path: str, files: Files) -> None:
        self.options = options
        self._path = path
        self._files = files

    def update(self, changes: Mapping[str, str], apply: Callable[[BrokerOptions], None]) -> str | None:
        """Change these keys, all or none; the reason when it cannot be. `apply` raises `ConfigError` to refuse."""
        fields = {field.encode_name: field for field in msgspec.structs.fields(BrokerOptions)}
        unknown = sorted(changes.keys() - fields.keys())
        if unknown:
            return f"{', '.join(unknown)} is no setting of this broker; nothing was changed"
        fixed = sorted(changes.keys() - RELOADABLE)
        if fixed:
            return f"{', '.join(fixed)} cannot be changed while the broker runs: set it in broker.conf and restart"
        before = self.options
        try:
            values: dict[str, Any] = {fields[k].name: convert(fields[k], text, ORIGIN) for k, text in changes.items()}
            changed = msgspec.structs.replace(before, **values)
            apply(changed)
        except ConfigError as error:
            return f"{error}; nothing was changed"
        try:
            self._keep(changes)
        except BolideError as error:
            apply(before)
            return f"{self._path} could not be written, so nothing was changed: {error}"
        self.options = changed
        return None

    def _keep(self, changes: Mapping[str, str]) -> None:
        if self._path:
            data = self._files.read_file(self._path) or b""
            # Bytes that are not UTF-8 (in comments, say) are kept as they are.
            text = edited(data.decode("utf-8", "surrogateescape"), changes)
            self._files.write_file(self._path, text.encode("utf-8", "surrogateescape"))


def edited(text: str, changes: Mapping[str, str]) -> str:
    """A .conf file with these keys changed: their lines go, new ones come at the end; all else stays as it is."""
    kept: list[str] = []
    continued = False
    for line in text.splitlines():
        # Of equal keys the last wins, so a line that goes on in the next may stay as it is.
        goes_on = line.endswith("\\")
        if continued or goes_on or not changes.keys() & keys_of(line):
            kept.append(line)
        continued = goes_on
    if continued:
        kept.append("")  # the last line would swallow the first of ours
    kept += [f"{key}={value.strip()}" for key, value in changes.items()]
    return "\n".join(kept) + "\n"


def keys_of(line: str) -> set[str]:
    """The keys that a line of a .conf file sets."""
    return set(read_properties_utf8(line.encode("utf-8", "replace")))
