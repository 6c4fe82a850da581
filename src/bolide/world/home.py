"""The home folder of the user, which may not exist in a container."""

from __future__ import annotations

from pathlib import Path

from bolide.errors import ConfigError


def expanded(path: str | Path) -> Path:
    """Return a path with its leading ``~`` replaced. Raises `ConfigError` if the user has no home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{path} starts with ~, but this user has no home folder: set HOME, or give a path without ~"
        ) from None
