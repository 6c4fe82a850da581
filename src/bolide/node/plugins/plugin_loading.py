"""Loads the plug-ins that a broker's settings name, and creates them with its settings at startup.

An unknown name or a plug-in that cannot be created stops the start with one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide import plugins
from bolide.broker.hooks import BrokerHook
from bolide.errors import ConfigError
from bolide.node.plugins.dispatchers import Dispatcher


def make_dispatchers(setting: str, settings: Mapping[str, str]) -> dict[str, Dispatcher]:
    """Return the dispatchers that the setting `dispatchers` names. Raises `ConfigError`."""
    return {name: made(plugins.DISPATCHERS, name, settings) for name in plugins.names_in(setting)}


def make_hooks(setting: str, settings: Mapping[str, str]) -> list[BrokerHook]:
    """Return the hooks that the setting `brokerHooks` names, in order. Raises `ConfigError`."""
    return [made(plugins.HOOKS, name, settings) for name in plugins.names_in(setting)]


def made(kind: plugins.PluginKind, name: str, settings: Mapping[str, str]) -> Any:
    """Create a plug-in with the broker's settings. Raises `ConfigError`."""
    make = plugins.find(kind, name)
    try:
        return make(settings)
    except Exception as error:  # third-party code: whatever the error is, the broker cannot start as configured
        raise ConfigError(
            f"the {kind.noun} {name} failed to load: {error}; fix it, or remove it from the settings"
        ) from error
