"""Requests to a broker in controller mode: 1007 from an operator, 1008 from its controller
(AdminBrokerProcessor.java)."""

from __future__ import annotations

from collections.abc import Callable

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.role import Role
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.controller import EpochEntry, EpochEntryCache
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.controller import NotifyBrokerRoleChangedRequestHeader
from bolide.remoting.request_access import SIGNED_GET, UPDATE_CLUSTER
from bolide.remoting.request_routes import Kind, RawRoute, Route
from bolide.replication.epochs import Epochs
from bolide.store.message_store import MessageStore


class ControlledService(Service):
    """Serves the requests of one broker. `role` is read for each response."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        role: Role,
        epochs: Callable[[], Epochs] | None = None,
        notified: Callable[[], None] | None = None,
    ) -> None:
        self._options = options
        self._store = store
        self._role = role
        self.epochs = epochs
        """Returns the epochs of the log. None for a broker without a controller."""
        self.notified = notified
        """Triggers a query to the controller for the master."""

    def routes(self) -> Routes:
        return [
            RawRoute(codes.GET_BROKER_EPOCH_CACHE, None, self.on_epochs, Kind.READ, access=SIGNED_GET),
            Route(
                codes.NOTIFY_BROKER_ROLE_CHANGED,
                NotifyBrokerRoleChangedRequestHeader,
                self.on_role_changed,
                Kind.SESSION,
                access=UPDATE_CLUSTER,
            ),
        ]

    def on_epochs(self, channel: Channel, command: Command, now: int) -> Outcome:
        """GET_BROKER_EPOCH_CACHE."""
        if self.epochs is None:
            remark = "this request only for controllerMode "  # with the blank of 5.5.0
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        entries = self.epochs().entries
        # On a slave with an empty log there is no epoch, and `ends` is one longer than `entries`.
        ends = [entry.start for entry in entries[1:]] + [EpochEntry().end_offset]
        body = EpochEntryCache(
            self._options.place.broker_cluster_name,
            self._options.place.broker_name,
            max(self._role.broker_id, 0),
            [EpochEntry(entry.number, entry.start, end) for entry, end in zip(entries, ends, strict=False)],
            int(self._store.end_offset),
        )
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_role_changed(
        self, channel: Channel, command: Command, header: NotifyBrokerRoleChangedRequestHeader, now: int
    ) -> Outcome:
        """NOTIFY_BROKER_ROLE_CHANGED. Every client may send it, so it only triggers an immediate query to the
        controller."""
        if self.notified is not None:
            self.notified()
        return reply(make_response(command, codes.SUCCESS))
