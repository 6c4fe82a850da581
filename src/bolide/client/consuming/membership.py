"""GroupMembership: a consumer's data at the brokers, sent by heartbeats (RocketMQ's ConsumerData)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from bolide.client.consuming.offset_queries import OffsetQueries
from bolide.client.consuming.offset_store import GroupOffsets
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.process_id import is_parents, process_id
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.namespace import with_namespace
from bolide.client.messages.start_from import StartFrom, start_name
from bolide.client.messages.subscription import Subscription
from bolide.errors import ArgumentError
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting.command import Command

Serve = Callable[[Command], Command | Coroutine[Any, Any, Command | None] | None]
"""Returns the response to a request of a broker, or None for no response."""

CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
PASSIVELY: Final = "CONSUME_PASSIVELY"
ACTIVELY: Final = "CONSUME_ACTIVELY"


def model_name(model: str) -> str:
    """Return ``CLUSTERING`` or ``BROADCASTING`` for a user's value, ignoring case. Raises `ArgumentError`."""
    if str(model).upper() not in (CLUSTERING, BROADCASTING):
        raise ArgumentError(f'model={model!r} is unknown, give "clustering" or "broadcasting"', "model")
    return model.upper()


class GroupMembership:
    """One consumer of a group: its subscriptions, and once it has joined, its client and the group's offsets."""

    def __init__(
        self, group: str, options: ClientOptions, model: str, consume_type: str, start_from: StartFrom, serve: Serve
    ) -> None:
        self.group = with_namespace(options.namespace, group)
        self.options = options
        self.model = model
        self.consume_type = consume_type
        self.start_from = start_from
        self.from_where = start_name(start_from)
        self.subscriptions: dict[str, Subscription] = {}
        self.parents: dict[str, str] = {}
        self._instance: ClientInstance | None = None
        self._store: GroupOffsets | None = None
        self._serve = serve
        self._pid = 0

    @property
    def instance(self) -> ClientInstance:
        """The shared client. Raises `ClientStateError` before `join` and after `leave`, `ClientForked` in a child."""
        instance = self._instance
        if instance is None:
            raise ClientStateError(f"consumer {self.group} is not running: use `async with` or await start()")
        if process_id() != self._pid:
            instance.check_process()
        return instance

    @property
    def in_child(self) -> bool:
        """Whether this is a forked child of the process that started the client. The child must not close it: it would
        leave the group through the connections of its parent."""
        return is_parents(self._pid)

    @property
    def store(self) -> GroupOffsets:
        """The group's offsets, also after `leave`. Raises `ClientStateError` before `join`."""
        if self._store is None:
            raise ClientStateError(f"consumer {self.group} is not running: use `async with` or await start()")
        return self._store

    @property
    def offsets(self) -> OffsetQueries:
        """Queries of the offsets of the group's queues. Raises like `instance`."""
        return OffsetQueries(self.instance, self.store, self.start_from)

    @property
    def retry_topic(self) -> str:
        """The topic of this group's messages that wait for a retry."""
        return RETRY_PREFIX + self.group

    async def register(self, store: Callable[[ClientInstance], GroupOffsets]) -> ClientInstance:
        """Add this consumer to the shared client, whose next heartbeat reports it to the brokers. `store` creates the
        store of the group's offsets. Raises `ClientStateError` if the group is already in use in this client."""
        instance = ClientInstance.acquire(self.options)
        try:
            instance.add_consumer(self)
        except ClientStateError:
            await instance.release()
            raise
        instance.parents.update(self.parents)
        self._instance, self._pid, self._store = instance, process_id(), store(instance)
        return instance

    async def unregister(self) -> None:
        """Remove this consumer from the shared client and notify the brokers. A second call does nothing."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.remove_consumer(self.group)
            await instance.release()

    # -- for ClientInstance

    def rebalance_soon(self) -> None:
        """Called when the group has changed. Does nothing without a rebalance."""

    def topics(self) -> set[str]:
        """Return the topics whose routes the client must refresh."""
        return set(self.subscriptions)

    def heartbeat(self) -> dict[str, Any]:
        """Return the ConsumerData of the heartbeat."""
        return {
            "consumeFromWhere": self.from_where,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.model,
            "subscriptionDataSet": [wanted.data() for wanted in self.subscriptions.values()],
            "unitMode": bool(self.options.unit),
        }

    def serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        """Respond to a broker's request."""
        return self._serve(command)
