"""Configuration by remote control: codes 318 and 319 (UPDATE_NAMESRV_CONFIG, GET_NAMESRV_CONFIG).

As in RocketMQ, unknown keys are ignored, and one key of the black list refuses the whole update with code 16. An
invalid value is refused too, where RocketMQ ignores it in silence.
"""

from __future__ import annotations

from bolide.declaration import changed
from bolide.errors import ConfigError
from bolide.namesrv.effects import KeepSettings, NamesrvEffects
from bolide.namesrv.handler import Routes
from bolide.namesrv.options import Settings
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.properties_text import read_properties, write_properties
from bolide.remoting.request_routes import Kind, RawRoute


class NamesrvConfigService:
    """Shows the settings and changes some of them."""

    def __init__(self, settings: Settings, effects: NamesrvEffects) -> None:
        self.settings = settings
        self.effects = effects

    def routes(self) -> Routes:
        """The codes answered here."""
        return [
            RawRoute(codes.UPDATE_NAMESRV_CONFIG, None, self.on_update, Kind.CHANGE),
            RawRoute(codes.GET_NAMESRV_CONFIG, None, self.on_get, Kind.READ),
        ]

    def on_get(self, channel_id: int, command: Command, now: int) -> Command:
        """GET_NAMESRV_CONFIG."""
        return make_response(command, codes.SUCCESS, body=write_properties(self.settings.shown_texts()))

    def on_update(self, channel_id: int, command: Command, now: int) -> Command:
        """UPDATE_NAMESRV_CONFIG."""
        try:
            given = read_properties(command.body)
        except ValueError as error:
            return make_response(command, codes.SYSTEM_ERROR, f"the properties cannot be read: {error}")
        refused = sorted(self.settings.black_list() & given.keys())
        if refused:
            remark = f"Can not update config in black list. Its keys in this update are {', '.join(refused)}"
            return make_response(command, codes.NO_PERMISSION, remark)
        known = self.settings.as_texts()
        changes = {key: value.strip() for key, value in given.items() if key in known and value.strip() != known[key]}
        try:
            self.settings.options = changed(self.settings.options, changes, "the update")
        except ConfigError as error:
            return make_response(command, codes.SYSTEM_ERROR, f"{error}; nothing was changed")
        if changes:
            self.effects.add(KeepSettings(changes))
        return make_response(command, codes.SUCCESS)
