"""Plug-ins selected by topics: the attributes `bolide.dispatchers` and `bolide.hooks` name them, joined by `;`.

A dispatcher selected by topics receives only their records, and a hook is called only for their sends and pulls.
Plug-ins in the settings see every topic, whether or not a topic also selects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide import plugins
from bolide.broker.hooks import BrokerHook, Hooked
from bolide.broker.refused import Refused
from bolide.broker.tables.attributes import DISPATCHERS, HOOKS
from bolide.broker.tables.topics import TopicTable
from bolide.errors import ConfigError
from bolide.node.loop.services import BrokerTable
from bolide.node.plugins.dispatchers import Dispatchers
from bolide.node.plugins.plugin_loading import made
from bolide.remoting.codes import SYSTEM_ERROR
from bolide.remoting.request_routes import RequestTable

KINDS: Final = {DISPATCHERS: plugins.DISPATCHERS, HOOKS: plugins.HOOKS}


class TopicPicks:
    """Creates the plug-ins that topics name, once each, and passes their topics to dispatchers and hooks."""

    def __init__(self, dispatchers: Dispatchers, hooked: Hooked, settings: Mapping[str, str]) -> None:
        self._dispatchers = dispatchers
        self._hooked = hooked
        self._settings = settings
        self._hooks: dict[str, BrokerHook] = {}
        self._topics: TopicTable | None = None
        self._table: BrokerTable = RequestTable()

    def begin(self, topics: TopicTable, table: BrokerTable) -> None:
        """Create the plug-ins of the stored topics. Raises `ConfigError`: a start must not silently drop a plug-in."""
        self._topics = topics
        self._table = table
        for topic in topics.table.values():
            try:
                self.make(topic.attributes)
            except Refused as refused:
                raise ConfigError(
                    f"topic {topic.topic_name}: {refused}; install its package, or remove it from config/topics.json"
                ) from refused
        self.changed()

    def make(self, attributes: Mapping[str, str]) -> None:
        """Create the plug-ins that these attributes name. Raises `Refused` 1 with the known names."""
        for key, kind in KINDS.items():
            for name in plugins.names_in(attributes.get(key, "")):
                if name in self._hooks if key == HOOKS else self._dispatchers.has(name):
                    continue
                try:
                    plugin = made(kind, name, self._settings)
                except ConfigError as error:
                    raise Refused(SYSTEM_ERROR, str(error)) from error
                if key == HOOKS:
                    self._hooks[name] = plugin
                else:
                    self._dispatchers.add(name, plugin)

    def changed(self) -> None:
        """Called when topics have changed: recompute which topic selects which plug-ins."""
        assert self._topics is not None
        by_dispatcher: dict[str, set[str]] = {}
        by_topic: dict[str, list[BrokerHook]] = {}
        for name, topic in self._topics.table.items():
            if not topic.attributes:
                continue
            for picked in plugins.names_in(topic.attributes.get(DISPATCHERS, "")):
                by_dispatcher.setdefault(picked, set()).add(name)
            hooks = [self._hooks[picked] for picked in plugins.names_in(topic.attributes.get(HOOKS, ""))]
            if hooks:
                by_topic[name] = hooks
        self._dispatchers.choose(by_dispatcher)
        self._hooked.choose(by_topic)
        if by_topic and not self._hooked.is_around:
            self._hooked.around(self._table)
