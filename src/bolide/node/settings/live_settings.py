"""Changes settings of a running broker (UPDATE_BROKER_CONFIG): checked together, applied, and written to its file.

RocketMQ changes fields of BrokerConfig under the running threads and rewrites the file it was started with
(Configuration.update). Here only settings that are declared live can change, which means that every reader has a
`configure` method. For other settings the response says that a restart is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.declaration import changed, settings_of
from bolide.errors import BolideError, ConfigError
from bolide.node.settings.unkept import refusal_of
from bolide.node.settings.without_effect import without_effect
from bolide.remoting.properties_text import lines_of, read_properties_utf8, written_value
from bolide.store.disk.files import Files

ORIGIN: Final = "the update"


class LiveSettings:
    """Options in force. `path`: file with which the broker was started, or "" to not store changes."""

    def __init__(self, options: BrokerOptions, path: str, files: Files) -> None:
        self.options = options
        self._path = path
        self._files = files

    def update(self, changes: Mapping[str, str], apply: Callable[[BrokerOptions], None]) -> str | None:
        """Change all of these settings or none. Return None on success, otherwise the reason. `apply` may raise
        `ConfigError`."""
        refusal = next(filter(None, (self._refusal(key, text) for key, text in sorted(changes.items()))), None)
        if refusal is not None:
            return f"{refusal}; nothing was changed"
        before = self.options
        try:
            after = changed(before, changes, ORIGIN)
            apply(after)
        except ConfigError as error:
            return f"{error}; nothing was changed"
        try:
            self._keep(changes)
        except BolideError as error:
            apply(before)
            return f"{self._path} could not be written, so nothing was changed: {error}"
        self.options = after
        return None

    def _refusal(self, key: str, text: str) -> str | None:
        """Return the reason why this key cannot change at run time, or None if it can."""
        setting = settings_of(BrokerOptions).get(key)
        if setting is not None and setting.about.live:
            return None
        idle = without_effect(BrokerOptions).get(key)
        if idle is not None:
            return f"{key} has no effect here: {idle}"
        if setting is None:
            return refusal_of(key, text) or f"{key} is not a setting of this broker"
        return f"{key} cannot be changed while the broker runs: set it in broker.conf and restart"

    def _keep(self, changes: Mapping[str, str]) -> None:
        if self._path:
            self._files.write_file(self._path, edited_file(self._files.read_file(self._path), changes))


def edited_file(data: bytes | None, changes: Mapping[str, str]) -> bytes:
    """Return a .conf file with these keys changed. Bytes that are not UTF-8 are preserved. `data` is None without a
    file."""
    return edited((data or b"").decode("utf-8", "surrogateescape"), changes).encode("utf-8", "surrogateescape")


def edited(text: str, changes: Mapping[str, str]) -> str:
    """Return a .conf file with these keys changed: removes their lines and appends new ones. Other lines are
    unchanged."""
    kept: list[str] = []
    continued = False
    lines = lines_of(text)
    for line in lines if lines[-1] else lines[:-1]:
        # The last of several lines with the same key takes effect, so an old line that continues in the next one may
        # remain.
        goes_on = line.endswith("\\")
        if continued or goes_on or not changes.keys() & keys_of(line):
            kept.append(line)
        continued = goes_on
    if continued:
        kept.append("")  # the last line would otherwise continue into the first new one
    kept += [f"{key}={written_value(value.strip())}" for key, value in changes.items()]
    return "\n".join(kept) + "\n"


def keys_of(line: str) -> set[str]:
    """Return the keys that a line of a .conf file sets."""
    return set(read_properties_utf8(line.encode("utf-8", "replace")))
