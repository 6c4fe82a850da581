"""Remote configuration: codes 318 and 319 (UPDATE_NAMESRV_CONFIG, GET_NAMESRV_CONFIG)."""

from __future__ import annotations

from bolide.namesrv.effects import KeepSettings, NamesrvEffects
from bolide.namesrv.handler import Routes
from bolide.namesrv.options import Settings
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.request_routes import Kind, RawRoute


class NamesrvConfigService:
    """Shows the settings and changes some of them."""

    def __init__(self, settings: Settings, effects: NamesrvEffects) -> None:
        self.settings = settings
        self.effects = effects

    def routes(self) -> Routes:
        """Return the routes of the served request codes."""
        return [
            RawRoute(codes.UPDATE_NAMESRV_CONFIG, None, self.on_update, Kind.CHANGE),
            RawRoute(codes.GET_NAMESRV_CONFIG, None, self.on_get, Kind.READ),
        ]

    def on_get(self, channel_id: int, command: Command, now: int) -> Command:
        """GET_NAMESRV_CONFIG."""
        return self.settings.show(command)

    def on_update(self, channel_id: int, command: Command, now: int) -> Command:
        """UPDATE_NAMESRV_CONFIG."""
        answer, changes = self.settings.update(command)
        if changes:
            self.effects.add(KeepSettings(changes))
        return answer
