"""Loads the settings of a daemon's process, checks them and writes them to its log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from bolide.errors import ConfigError
from bolide.node.logs.log_options import LogOptions
from bolide.node.logs.logs import configure_logging, start_logging
from bolide.node.settings.config import Loaded, Options, load_daemon
from bolide.node.settings.in_force import log_settings


def daemon_settings(
    kind: type[Options],
    sources: tuple[Mapping[str, object] | None, str | None],
    kept: Callable[[Options], str],
    log_options: Callable[[Options], LogOptions],
    log: logging.Logger,
    tell: Callable[[str], object],
) -> tuple[Loaded[Options], str] | None:
    """Start logging, and return the settings and the file that keeps their changes, as `load_daemon` does.

    `sources` are flags and file. Returns None if a setting is wrong: the log and `tell` then have the reason.
    """
    start_logging()
    try:
        loaded, path = load_daemon(kind, *sources, kept)
        configure_logging(log_options(loaded.options))
    except ConfigError as error:
        log.error("%s", error)
        tell(str(error))
        return None
    log_settings(loaded, log)
    return loaded, path
