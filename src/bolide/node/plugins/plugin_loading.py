"""What plug-ins add to a broker: found by the names in its settings, made with its settings, at its start.

A name that nobody knows, or a plug-in that cannot be made, stops the start with one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide import plugins
from bolide.broker.hooks import BrokerHook
from bolide.errors import ConfigError
from bolide.node.plugins.dispatchers import Dispatcher


def make_dispatchers(setting: str, settings: Mapping[str, str]) -> dict[str, Dispatcher]:
    """The dispatchers that the setting `dispatchers` names. Raises `ConfigError`."""
    return {name: made(plugins.DISPATCHERS, name, settings) for name in plugins.names_in(setting)}


def make_hooks(setting: str, settings: Mapping[str, str]) -> list[BrokerHook]:
    """The hooks that the setting `brokerHooks` names, in its order. Raises `ConfigError`."""
    return [made(plugins.HOOKS, name, settings) for name in plugins.names_in(setting)]


def made(kind: plugins.PluginKind, name: str, settings: Mapping[str, str]) -> Any:
    """The object that a plug-in makes of the broker's settings. Raises `ConfigError`."""
    make = plugins.find(kind, name)
    try:
        return make(settings)
    except Exception as error:  # another's code: whatever it is, the broker cannot start as it was told to
        raise ConfigError(
            f"the {kind.noun} {name} failed to load: {error}; fix it, or remove it from the settings"
        ) from error
