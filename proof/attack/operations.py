"""An operator at work: topics, groups, keys and settings change during the faults, and each answer is noted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from bolide.admin.client import Admin
from bolide.client import BolideError, Message, MessageQueue, Producer, ResponseError, Retry, SendStatus
from bolide.remoting import codes
from proof.attack import journal
from proof.attack.servers import Server
from proof.kit.journal import Journal

TOPICS: Final = ("op-1", "op-2", "op-3")
GROUPS: Final = ("op-group-1", "op-group-2")
NAMESPACE: Final = "OPERATOR"
SETTING: Final = "maxHeldRequests"
ASK_SECONDS: Final = 5.0


class Operator:
    """Asks brokers and name servers by their addresses, so that it needs no route."""

    def __init__(self, brokers: list[Server], name_servers: list[Server], book: Path, seed: int) -> None:
        self.brokers = brokers
        self.name_servers = name_servers
        self.journal = Journal(book)
        self.random = random.Random(seed)
        self.done = 0
        self._next = 999_999_999_001
        addresses = ";".join(address_of(server) for server in name_servers)
        self._admin = Admin(addresses, timeout=ASK_SECONDS, client_id="attack-operator")
        self._producer = Producer(
            "attack-operator", addresses, retry=Retry(attempts=1), timeout=3.0, client_id="attack-operator-2"
        )

    async def __aenter__(self) -> Operator:
        await self._admin.start()
        await self._producer.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._producer.close()
        await self._admin.close()

    async def put_topic(self, broker: Server, topic: str, queues: int) -> bool:
        """Create a topic at one broker, or change how many queues it has."""
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        key, value = ("topic", broker.name, topic), (queues, queues, 6)
        return await self._change(key, value, broker, codes.UPDATE_AND_CREATE_TOPIC, ext)

    async def delete_topic(self, broker: Server, topic: str) -> bool:
        """Delete a topic at one broker."""
        ext = {"topic": topic}
        return await self._change(("topic", broker.name, topic), None, broker, codes.DELETE_TOPIC_IN_BROKER, ext)

    async def put_group(self, broker: Server, group: str, retries: int) -> bool:
        """Create a group, or change how often its messages are tried again."""
        body = msgspec.json.encode({"groupName": group, "retryMaxTimes": retries, "consumeEnable": True})
        key = ("group", broker.name, group)
        return await self._change(key, retries, broker, codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    async def delete_group(self, broker: Server, group: str) -> bool:
        """Delete a group."""
        ext = {"groupName": group, "cleanOffset": "true", "removeOffset": "true"}
        return await self._change(("group", broker.name, group), None, broker, codes.DELETE_SUBSCRIPTIONGROUP, ext)

    async def put_key(self, server: Server, key: str, value: str) -> bool:
        """Write a key of a name server."""
        ext = {"namespace": NAMESPACE, "key": key, "value": value}
        return await self._change(("key", server.name, key), value, server, codes.PUT_KV_CONFIG, ext)

    async def delete_key(self, server: Server, key: str) -> bool:
        """Delete a key of a name server."""
        ext = {"namespace": NAMESPACE, "key": key}
        return await self._change(("key", server.name, key), None, server, codes.DELETE_KV_CONFIG, ext)

    async def set_setting(self, broker: Server, value: int) -> bool:
        """Change a setting of a running broker."""
        body = f"{SETTING}={value}\n".encode()
        key = ("setting", broker.name, SETTING)
        return await self._change(key, str(value), broker, codes.UPDATE_BROKER_CONFIG, None, body)

    async def send(self, broker: Server, topic: str, queue: int) -> None:
        """Send to a topic that may be deleted meanwhile."""
        number = self._next
        self._next += 1
        self.journal.note(journal.SEND, number, topic, 100, "", "", {}, "plain", 0.0, "")
        try:
            place = MessageQueue(topic, broker.name, queue)
            sent = await self._producer.send(Message(topic, journal.body(number, 100)), queue=place)
        except BolideError as error:
            self.journal.note(journal.UNKNOWN, [number], str(error)[:200])
            return
        if sent.status is not SendStatus.SEND_OK:
            self.journal.note(journal.UNKNOWN, [number], sent.status.name)
            return
        at = sent.queue
        self.journal.note(journal.DONE, [number], at.broker_name, at.topic, at.queue_id, sent.queue_offset)

    async def _change(
        self,
        key: tuple[str, ...],
        value: object,
        server: Server,
        code: int,
        ext: dict[str, str] | None,
        body: bytes = b"",
    ) -> bool:
        serial = self.journal.next_serial()
        self.journal.note(journal.CHANGING, serial, key, value)
        try:
            await self._admin.ask(address_of(server), code, ext, body)
        except ResponseError:
            # The answer to a table's failed write says so, and the write is tried again: the change may last.
            self.journal.note(journal.CHANGED, serial, journal.UNKNOWN)
            return False
        except BolideError:
            self.journal.note(journal.CHANGED, serial, journal.UNKNOWN)
            return False
        self.journal.note(journal.CHANGED, serial, journal.DONE)
        self.done += 1
        return True

    async def change_something(self) -> str:
        """Make one change, or a few that belong together; says what."""
        chance = self.random
        broker, topic = chance.choice(self.brokers), chance.choice(TOPICS)
        kinds: list[Callable[[], Awaitable[str]]] = [
            lambda: self._new_topic(broker, topic),
            lambda: self._new_topic(broker, topic),
            lambda: self._remade_topic(broker, topic),
            lambda: self._group(broker),
            lambda: self._key(),
            lambda: self._setting(broker),
        ]
        return await chance.choice(kinds)()

    async def _new_topic(self, broker: Server, topic: str) -> str:
        queues = self.random.randint(1, 6)
        made = await self.put_topic(broker, topic, queues)
        for _ in range(self.random.randint(0, 8) if made else 0):
            await self.send(broker, topic, self.random.randrange(queues))
        return f"put topic {topic} with {queues} queues at {broker.name}"

    async def _remade_topic(self, broker: Server, topic: str) -> str:
        sends = [asyncio.create_task(self.send(broker, topic, 0)) for _ in range(self.random.randint(0, 3))]
        await self.delete_topic(broker, topic)
        await asyncio.gather(*sends)
        if self.random.random() < 0.6:
            return f"delete topic {topic} at {broker.name}; " + await self._new_topic(broker, topic)
        return f"delete topic {topic} at {broker.name}"

    async def _group(self, broker: Server) -> str:
        group = self.random.choice(GROUPS)
        if self.random.random() < 0.3:
            await self.delete_group(broker, group)
            return f"delete group {group} at {broker.name}"
        retries = self.random.randint(1, 16)
        await self.put_group(broker, group, retries)
        return f"put group {group} with {retries} retries at {broker.name}"

    async def _key(self) -> str:
        server, key = self.random.choice(self.name_servers), f"key-{self.random.randint(1, 4)}"
        if self.random.random() < 0.3:
            await self.delete_key(server, key)
            return f"delete {key} at {server.name}"
        value = f"value-{self.random.randrange(1000)}"
        await self.put_key(server, key, value)
        return f"put {key}={value} at {server.name}"

    async def _setting(self, broker: Server) -> str:
        value = self.random.randint(50_000, 100_000)
        await self.set_setting(broker, value)
        return f"set {SETTING}={value} at {broker.name}"


def address_of(server: Server) -> str:
    """Where a server listens."""
    return f"127.0.0.1:{server.flags['listenPort']}"


def tables(found: dict[str, Any]) -> dict[tuple[str, ...], object]:
    """The keys that an operator may have written, each with its value or None, out of what the files hold."""
    seen: dict[tuple[str, ...], object] = {}
    for broker, topics in found["topics"].items():
        seen.update({("topic", broker, topic): topics.get(topic) for topic in TOPICS})
    for broker, groups in found["groups"].items():
        seen.update({("group", broker, group): groups.get(group) for group in GROUPS})
    for server, keys in found["keys"].items():
        for number in range(1, 5):
            seen["key", server, f"key-{number}"] = keys.get((NAMESPACE, f"key-{number}"))
    for broker, value in found["settings"].items():
        seen["setting", broker, SETTING] = value
    return seen
