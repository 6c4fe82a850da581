"""Settings of a running broker: get all (26), update live settings (25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.data_version import DataVersion
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topics import TopicTable
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.command import Command, make_response
from bolide.remoting.properties_text import read_properties, write_properties
from bolide.remoting.request_access import ADMINISTER, SIGNED_GET
from bolide.remoting.request_routes import Kind, RawRoute

BLACK_LIST: Final = frozenset({"configBlackList", "brokerConfigPath", "rocketmqHome"})


class BrokerConfigService(Service):
    """Returns the settings, and changes those that `update` accepts."""

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicTable,
        settings: Callable[[], dict[str, str]],
        update: Callable[[dict[str, str]], str | None],
        start: int,
    ) -> None:
        """`settings()` returns all current settings as text. `update(changes)` applies changes and returns None, or
        returns why it rejects them."""
        self._options = options
        self._topics = topics
        self._settings = settings
        self._update = update
        self._version = DataVersion(start, 0, 0)

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [
            RawRoute(codes.GET_BROKER_CONFIG, None, self.on_config, Kind.READ, access=SIGNED_GET),
            RawRoute(codes.UPDATE_BROKER_CONFIG, None, self.on_update_config, Kind.CHANGE, access=ADMINISTER),
        ]

    def on_config(self, channel: Channel, command: Command, now: int) -> Outcome:
        text = write_properties(self._settings())
        version = encode_body(self._version.to_json()).decode()
        return reply(make_response(command, codes.SUCCESS, ext={"version": version}, body=text))

    def on_update_config(self, channel: Channel, command: Command, now: int) -> Outcome:
        try:
            changes = read_properties(command.body)
        except ValueError as error:
            return reply(make_response(command, codes.SYSTEM_ERROR, f"the properties cannot be read: {error}"))
        black = {key.strip() for key in self._options.operator.config_black_list.split(";")}
        if BLACK_LIST.intersection(changes) or black.intersection(changes):
            return reply(make_response(command, codes.NO_PERMISSION, "Can not update config in black list."))
        refusal = self._update(changes) if changes else None
        if refusal is not None:
            return reply(make_response(command, codes.SYSTEM_ERROR, refusal))
        self._version.next(now)
        if "brokerPermission" in changes:
            self._topics.announce(now)  # name servers ignore a registration with an unchanged DataVersion
        return reply(make_response(command, codes.SUCCESS))
