"""Notifications between brokers of a set: 905 from a name server, 906 from each other (AdminBrokerProcessor.java)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.namesrv import NotifyMinBrokerIdChangeRequestHeader
from bolide.remoting.headers.replication import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from bolide.remoting.request_access import UPDATE_CLUSTER
from bolide.remoting.request_routes import Kind, Route
from bolide.store.message_store import MessageStore


class BrokerPlace(Protocol):
    """Addresses of a broker."""

    @property
    def address(self) -> str:
        """Address for clients."""

    @property
    def ha_address(self) -> str:
        """Address for slaves that replicate its log."""


class MembersService(Service):
    """Serves the notifications that brokers of a set and name servers send to this broker."""

    def __init__(
        self,
        store: MessageStore,
        role: Role,
        notified: Callable[[], None] | None = None,
        log_told: Callable[[str], None] | None = None,
        place: BrokerPlace | None = None,
    ) -> None:
        self._role = role
        self._began_at = int(store.end_offset)
        self.notified = notified
        """Triggers a query to a name server for the members of the set. None for a broker that is never an acting
        master."""
        self.log_told = log_told
        """Called with the address of a master's log. None for a broker that never replicates, or has a controller."""
        self.place = place
        """Addresses of a master that serves its log, else None."""

    def routes(self) -> Routes:
        return [
            Route(
                codes.NOTIFY_MIN_BROKER_ID_CHANGE,
                NotifyMinBrokerIdChangeRequestHeader,
                self.on_least_changed,
                Kind.SESSION,
                durable=False,
                access=UPDATE_CLUSTER,
            ),
            Route(
                codes.EXCHANGE_BROKER_HA_INFO,
                ExchangeHAInfoRequestHeader,
                self.on_exchange,
                Kind.SESSION,
                durable=False,
                access=UPDATE_CLUSTER,
            ),
        ]

    def on_least_changed(
        self, channel: Channel, command: Command, header: NotifyMinBrokerIdChangeRequestHeader, now: int
    ) -> Outcome:
        """NOTIFY_MIN_BROKER_ID_CHANGE. Every client may send it, so it only triggers an immediate query to a name
        server."""
        if self.notified is not None:
            self.notified()
        return reply(make_response(command, codes.SUCCESS))

    def on_exchange(self, channel: Channel, command: Command, header: ExchangeHAInfoRequestHeader, now: int) -> Outcome:
        """EXCHANGE_BROKER_HA_INFO. A master sends its address before name servers have it, or returns it on request."""
        answer = ExchangeHAInfoResponseHeader()
        if header.master_ha_address:
            # The tables are copied once name servers list the master: until then it may copy tables from this broker.
            if self.log_told is not None and not self._role.may_write:
                self.log_told(header.master_ha_address)
        elif self.place is not None and self._role.may_write:
            answer.master_address, answer.master_ha_address = self.place.address, self.place.ha_address
            answer.master_flush_offset = self._began_at
        return reply(make_response(command, codes.SUCCESS, ext=answer.to_ext()))
