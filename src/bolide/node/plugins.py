"""Plug-ins by entry point: what other installed packages add to a broker, found by the name they give it."""

from __future__ import annotations

from importlib.metadata import entry_points

from bolide.broker.expressions import ENTRY_POINTS, Compile
from bolide.errors import ConfigError


def expression_types() -> dict[str, Compile]:
    """Installed types of expressions (entry points `bolide.expression_types`) by name. Raises `ConfigError`."""
    found: dict[str, Compile] = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found[point.name] = point.load()
        except Exception as error:  # anything may go wrong in another's module: the start stops and says where
            raise ConfigError(
                f"the expression type {point.name} ({point.value}) cannot be loaded: {error}; repair or remove it"
            ) from error
    return found
