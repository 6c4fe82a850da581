"""The name server as one object: maps commands to responses and effects, without sockets, clock or files."""

from __future__ import annotations

from bolide.access.cluster_gate import cluster_gate
from bolide.errors import BolideError
from bolide.namesrv.config import NamesrvConfigService
from bolide.namesrv.effects import Effect, NamesrvEffects
from bolide.namesrv.kv import KvService
from bolide.namesrv.options import NamesrvOptions, Settings
from bolide.namesrv.registration import RegistrationService
from bolide.namesrv.routes import RouteService
from bolide.namesrv.tables import Tables
from bolide.namesrv.topic_lists import TopicListService
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_routes import ORDINARY, RequestTable
from bolide.remoting.unsupported import unsupported


class NameServer:
    """All services over one set of tables.

    `kv` is the content of kvConfig.json, or b"" for a new file. `start` is the start time in ms since the epoch. Raises
    `BodyError` for invalid content: a name server must not start without its configuration.
    """

    def __init__(self, options: NamesrvOptions, kv: bytes = b"", start: int = 0) -> None:
        self.settings = Settings(options)
        self.tables = Tables()
        self.effects = NamesrvEffects()
        self.kv = KvService(self.effects, self.settings, kv)
        self.registration = RegistrationService(self.tables, self.settings, self.kv, self.effects)
        self.routes = RouteService(self.tables, self.settings, self.kv, start)
        self.table: RequestTable[int, Command] = RequestTable()
        self.table.add("KvService", self.kv.routes())
        self.table.add("RegistrationService", self.registration.routes())
        self.table.add("RouteService", self.routes.routes())
        self.table.add("TopicListService", TopicListService(self.tables, self.settings).routes())
        self.table.add("NamesrvConfigService", NamesrvConfigService(self.settings, self.effects).routes())
        self._ordinary = self.table.ordinary()
        self._gate = cluster_gate(options, self.table)

    def handle(self, channel_id: int, remote: str, command: Command, now: int) -> Command | None:
        """Handle a request. Return the response, or None for a oneway request and for a response.

        `channel_id` is the id of the connection, which is never reused. `remote` is its address, for remarks. `now` is
        in ms since the epoch.
        """
        if command.is_response:
            return None
        handler = self.table.handlers.get(command.code)
        refused = None if self._gate is None else self._gate.refused(remote, command)
        if handler is None:
            answer = unsupported(command)
        elif refused is not None:
            answer = refused
        else:
            try:
                answer = handler(channel_id, command, now)
            except BolideError as error:
                answer = make_response(
                    command, error.code or codes.SYSTEM_ERROR, f"{type(error).__name__} from {remote}: {error}"
                )
        return None if command.is_oneway else answer

    def is_ordinary(self, request: Command, answer: Command) -> bool:
        """Return whether this error response is part of normal operation and need not be logged."""
        return answer.code in self._ordinary.get(request.code, ORDINARY)

    def channel_closed(self, channel_id: int, now: int) -> None:
        """Called when a connection closes: remove the brokers that registered on it."""
        self.registration.channel_closed(channel_id)

    def due(self, now: int) -> int | None:
        """Return when to call `tick` next, ms since the epoch, or None if no work is pending."""
        return self.registration.due()

    def tick(self, now: int, budget: int = 0) -> None:
        """Do due work for about ten milliseconds. `due` then reports whether more is left."""
        self.registration.tick(now)

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects since the last call, in order."""
        return self.effects.take()
