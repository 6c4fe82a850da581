"""Connected clients: consumer groups with their subscriptions, producer groups, and their channels.

docs/protocol/behaviour.md 6.1 to 6.3 (RocketMQ's ConsumerManager, ConsumerGroupInfo, ProducerManager). A client is
identified by its TCP channel. The subscriptions of a group are those of the latest heartbeat, so two clients of one
group with different subscriptions overwrite each other, as in Java.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.remoting.bodies.clients import ConsumerData, SubscriptionData
from bolide.remoting.permit import Permit

CLIENT_EXPIRY_MS: Final = 120_000
BROADCASTING: Final = "BROADCASTING"


class Client:
    """One channel of a group, as its last heartbeat described it."""

    def __init__(self, channel: Channel, client_id: str, language: int, version: int, now: int) -> None:
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_update = now
        self.permit: Permit | None = None
        """The rights of the user who signed the last heartbeat, or None without access control."""

    def may_see(self, topics: list[str]) -> bool:
        """Return whether this producer may receive half messages of one of these topics."""
        return self.permit is None or self.permit.refusal(topics) is None


class ConsumerGroup:
    """A connected consumer group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.consume_type = ""
        self.message_model = ""
        self.consume_from_where = ""
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.cost = 0
        self.clients: dict[int, Client] = {}

    @property
    def broadcasting(self) -> bool:
        return self.message_model == BROADCASTING

    def client_ids(self) -> list[str]:
        """Return the ids of all channels. A client with two channels is listed twice, as in Java."""
        return [client.client_id for client in self.clients.values()]

    def update(self, data: ConsumerData, client: Client, with_subscriptions: bool) -> bool:
        """Apply a heartbeat. Return whether it adds a channel or changes the set of topics."""
        self.consume_type = str(data.consume_type or "")
        self.message_model = str(data.message_model or "")
        self.consume_from_where = str(data.consume_from_where or "")
        changed = client.channel.id not in self.clients
        self.clients[client.channel.id] = client
        return self._subscribe(data.subscription_data_set) or changed if with_subscriptions else changed

    def _subscribe(self, subscriptions: list[SubscriptionData]) -> bool:
        changed = False
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            old = self.subscriptions.get(subscription.topic)
            if old is None:
                changed = True
            if old is None or subscription.sub_version > old.sub_version:
                self.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed


class Clients:
    """All groups of one broker. Methods that change a consumer group return the channels to notify (code 40)."""

    def __init__(self, expiry_ms: int = CLIENT_EXPIRY_MS) -> None:
        self._expiry_ms = expiry_ms
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.producer_groups: dict[str, dict[int, Client]] = {}
        self.subscribed = 0
        """Total `cost` of the subscriptions of all groups."""
        self._consumes: dict[int, dict[str, None]] = {}
        """Channel id -> its consumer groups."""
        self._produces: dict[int, dict[str, None]] = {}
        self._turn: dict[str, int] = {}

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """Return a connected group, or None if no client is connected."""
        return self.consumer_groups.get(group)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of a connected group to a topic, or None."""
        found = self.consumer_groups.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def register_consumer(self, data: ConsumerData, client: Client, with_subscriptions: bool = True) -> list[Channel]:
        """Apply a consumer's heartbeat."""
        group = self.consumer_groups.get(data.group_name)
        if group is None:
            group = self.consumer_groups[data.group_name] = ConsumerGroup(data.group_name)
        self._consumes.setdefault(client.channel.id, {})[data.group_name] = None
        changed = group.update(data, client, with_subscriptions)
        if with_subscriptions:
            self.subscribed -= group.cost
            group.cost = cost(list(group.subscriptions.values()))
            self.subscribed += group.cost
        return _channels(group) if changed else []

    def register_producer(self, group: str, client: Client) -> None:
        """Apply a producer's heartbeat. A channel keeps its first client id, as in Java."""
        known = self.producer_groups.setdefault(group, {}).setdefault(client.channel.id, client)
        known.last_update = client.last_update
        known.permit = client.permit
        self._produces.setdefault(client.channel.id, {})[group] = None

    def unregister_consumer(self, group: str, channel: Channel) -> list[Channel]:
        """Unregister a consumer. The others are notified even if this channel was unknown, as in Java."""
        found = self.consumer_groups.get(group)
        if found is None:
            return []
        found.clients.pop(channel.id, None)
        _leave(self._consumes, channel.id, group)
        if not found.clients:
            del self.consumer_groups[group]
            self.subscribed -= found.cost
        return _channels(found)

    def unregister_producer(self, group: str, channel: Channel) -> None:
        """Unregister a producer."""
        found = self.producer_groups.get(group)
        if found is not None:
            found.pop(channel.id, None)
            _leave(self._produces, channel.id, group)
            if not found:
                del self.producer_groups[group]
                self._turn.pop(group, None)

    def groups_of(self, channel: Channel) -> list[ConsumerGroup]:
        """Return the consumer groups of a channel."""
        return [self.consumer_groups[name] for name in self._consumes.get(channel.id, ())]

    def drop(self, channel: Channel) -> dict[str, list[Channel]]:
        """Remove a closed channel. Return the channels to notify, by group. The cost depends only on the number of its
        groups."""
        told = {}
        for group in self.groups_of(channel):
            told[group.name] = self.unregister_consumer(group.name, channel)
        for name in list(self._produces.get(channel.id, ())):
            self.unregister_producer(name, channel)
        return told

    def expired(self, now: int) -> list[Channel]:
        """Return channels without a heartbeat for 120 s. The caller closes them; `drop` then removes them."""
        late: dict[int, Channel] = {}
        tables = [group.clients for group in self.consumer_groups.values()]
        tables.extend(self.producer_groups.values())
        for clients in tables:
            for client in clients.values():
                if now - client.last_update > self._expiry_ms:
                    late[client.channel.id] = client.channel
        return list(late.values())

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return connected groups that subscribe to a topic."""
        return [name for name, group in self.consumer_groups.items() if topic in group.subscriptions]

    def consumer_channel(self, group: str, client_id: str) -> Client | None:
        """Return the channel of one client of a consumer group, or None."""
        found = self.consumer_groups.get(group)
        if found is None:
            return None
        return next((client for client in found.clients.values() if client.client_id == client_id), None)

    def producer_by_client_id(self, client_id: str) -> Client | None:
        """Return any producer channel of this client id, or None. Used to find the requester of a request-reply."""
        for clients in self.producer_groups.values():
            for client in clients.values():
                if client.client_id == client_id and client.channel.alive:
                    return client
        return None

    def next_producer(self, group: str, topics: list[str]) -> Client | None:
        """Return the next live channel of a producer group that may see half messages of one of these topics, or None.

        Transaction checks use the channels in turn.
        """
        members = self.producer_groups.get(group, {}).values()
        alive = [client for client in members if client.channel.alive and client.may_see(topics)]
        if not alive:
            return None
        turn = self._turn.get(group, 0)
        self._turn[group] = turn + 1
        return alive[turn % len(alive)]


def cost(subscriptions: list[SubscriptionData]) -> int:
    """Return the memory cost of subscriptions: 1 each, plus 1 per 1024 characters and codes."""
    return sum(
        1 + (len(each.topic) + len(each.sub_string or "") + sum(map(len, each.tags_set)) + len(each.code_set)) // 1024
        for each in subscriptions
    )


def _leave(groups: dict[int, dict[str, None]], channel_id: int, group: str) -> None:
    mine = groups.get(channel_id)
    if mine is not None:
        mine.pop(group, None)
        if not mine:
            del groups[channel_id]


def _channels(group: ConsumerGroup) -> list[Channel]:
    return [client.channel for client in group.clients.values()]
