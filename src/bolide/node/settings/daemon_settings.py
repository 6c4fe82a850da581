"""Loads and checks the settings of a server process, and logs them."""

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
    """Start logging. Return the settings and the file that stores changes made at run time, like `load_daemon`.

    `sources` are flags and file. Returns None if a setting is invalid, after logging the reason and passing it to
    `tell`.
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
