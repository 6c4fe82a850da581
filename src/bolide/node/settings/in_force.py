"""Logs the settings of a server at startup, as RocketMQ does: values that differ from defaults, with their sources.
Secrets are masked."""

from __future__ import annotations

import logging
import re
from typing import Final

from msgspec import Struct

from bolide.declaration import settings_of, values_in
from bolide.node.settings.config import Loaded, shown

LONGEST: Final = 300
"""Maximum characters of a value; longer values are truncated."""
_USER_OF_ADDRESS: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def log_settings(loaded: Loaded[Struct], log: logging.Logger) -> None:
    """Log the warnings about settings, then one record with the settings that differ from defaults."""
    for line in loaded.warnings:
        log.warning("%s", line)
    log.info("%s", settings_line(loaded))


def settings_line(loaded: Loaded[Struct]) -> str:
    """Return the settings that are not defaults, in the order of their sources: file, variables, flags."""
    by_origin: dict[str, list[str]] = {}
    settings = settings_of(type(loaded.options))
    for key, value in values_in(loaded.options).items():
        if value != settings[key].default:
            by_origin.setdefault(loaded.origins[key], []).append(f"{key} = {_printable(shown(key, value))}")
    if not by_origin:
        return "settings: all have their defaults"
    parts = [f"{', '.join(pairs)} ({_printable(origin)})" for origin, pairs in sorted(by_origin.items(), key=_rank)]
    return f"settings that are not defaults: {'; '.join(parts)}"


def _rank(item: tuple[str, list[str]]) -> tuple[int, str]:
    origin = item[0]
    return ("file", "variable", "flag").index(origin.partition(" ")[0]), origin


def _printable(value: str) -> str:
    masked = _USER_OF_ADDRESS.sub("******", value)
    short = masked[:LONGEST] + ("..." if len(masked) > LONGEST else "")
    return "".join(char if char.isprintable() else "?" for char in short)
