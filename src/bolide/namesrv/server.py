"""The whole name server as one object: commands in, answers and effects out; no socket, no clock, no file."""

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
    """All services over one set of tables. kv: the bytes of kvConfig.json, b"" for a new one; start: when it
    began, ms since the epoch.

    Raises BodyError when they cannot be read: a name server must not start by forgetting its configuration.
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
        """The answer to a request; None for a oneway request and for a response.

        channel_id: one connection, never used twice; remote: its peer, for remarks; now: ms since the epoch.
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
        """Whether every working peer is answered so now and then: nothing to log."""
        return answer.code in self._ordinary.get(request.code, ORDINARY)

    def channel_closed(self, channel_id: int, now: int) -> None:
        """A connection ended: the brokers that registered over it are gone."""
        self.registration.channel_closed(channel_id)

    def due(self, now: int) -> int | None:
        """When `tick` has something to do, ms since the epoch; None while nothing waits."""
        return self.registration.due()

    def tick(self, now: int, budget: int = 0) -> None:
        """Do what is due for some ten milliseconds; `due` says whether more is left."""
        self.registration.tick(now)

    def take_effects(self) -> list[Effect]:
        """What to close and write since the last call, in order."""
        return self.effects.take()
