"""The operator of a run: changes topics, groups, offsets, settings and keys under traffic, and notes the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bolide.admin import Admin
from bolide.admin.calls import ext_of
from bolide.client import ResponseError, World
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.groups import SubscriptionGroupConfig
from proof.ledger import Ledger, Outcome, Queue, View
from proof.simulation.plan import Action

KV: Final = "SIMULATION"
"""The namespace of the keys that are kept at the name servers."""
MAYBE: Final = frozenset({codes.SYSTEM_ERROR, codes.SERVICE_NOT_AVAILABLE})
"""With these a broker says that a table could not be written; it tries again."""


class Operator:
    """One operator process. It asks each broker and name server by its address."""

    def __init__(
        self,
        ledger: Ledger,
        told: Callable[[str, str, str], None],
        brokers: Sequence[tuple[str, str]],
        namesrvs: Sequence[str],
    ) -> None:
        """`brokers` are names and addresses, which change with the masters of sets."""
        self._ledger = ledger
        self._told = told
        self.brokers = brokers
        self._namesrvs = namesrvs
        self._admin: Admin | None = None
        self.keys = "", ""
        """Access key and secret key, or empty texts if the client does not sign."""
        self.busy = 0

    async def start(self, namesrv: str, world: World) -> None:
        """Ready for calls."""
        access, secret = self.keys
        self._admin = Admin(
            namesrv, timeout=10.0, instance_name="operator", world=world, access_key=access, secret_key=secret
        )
        await self._admin.start()

    @property
    def admin(self) -> Admin:
        """The client. A plan acts only once it is started."""
        assert self._admin is not None
        return self._admin

    async def act(self, action: Action) -> None:
        """Do what the plan says."""
        self.busy += 1
        try:
            await getattr(self, f"_{action.do}")(action)
        finally:
            self.busy -= 1

    async def _change(
        self, key: tuple[str, ...], value: object, address: str, code: int, ext: dict[str, str], body: bytes = b""
    ) -> None:
        change = self._ledger.changing(key, value)
        said = "done"
        try:
            await self.admin.ask(address, code, ext, body)
            outcome = Outcome.DONE
        except ResponseError as error:
            outcome = Outcome.UNKNOWN if error.code in MAYBE else Outcome.REFUSED
            said = f"{outcome.value}, {error}"
        except (OSError, Exception) as error:
            if isinstance(error, asyncio.CancelledError):
                raise
            outcome = Outcome.UNKNOWN
            said = f"unknown, {type(error).__name__}: {error}"
        self._ledger.changed(change, outcome)
        kind = "change" if outcome is Outcome.DONE else "answer"
        self._told(kind, f"{' '.join(key)} = {value}: {said[:160]}", key[1])

    async def _put_topic(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        topic, queues = action.text("topic"), action.number("queues")
        ext = ext_of(
            topic=topic,
            defaultTopic="TBW102",
            readQueueNums=queues,
            writeQueueNums=queues,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order=False,
        )
        await self._change(("topic", name, topic), queues, address, codes.UPDATE_AND_CREATE_TOPIC, ext)

    async def _delete_topic(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        topic = action.text("topic")
        await self._change(("topic", name, topic), None, address, codes.DELETE_TOPIC_IN_BROKER, ext_of(topic=topic))

    async def _put_group(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        group, retries = action.text("group"), action.number("retries")
        body = encode_body(SubscriptionGroupConfig(group_name=group, retry_max_times=retries))
        await self._change(
            ("group", name, group), retries, address, codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body
        )

    async def _delete_group(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        group = action.text("group")
        ext = ext_of(groupName=group, cleanOffset=True, removeOffset=True)
        await self._change(("group", name, group), None, address, codes.DELETE_SUBSCRIPTIONGROUP, ext)

    async def _set_offset(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        group, topic = action.text("group"), action.text("topic")
        queue, offset = action.number("queue"), action.number("offset")
        ext = ext_of(group=group, topic=topic, timestamp=-1, isForce=True, offset=offset, queueId=queue)
        key = ("offset", name, group, topic, str(queue))
        await self._change(key, offset, address, codes.INVOKE_BROKER_TO_RESET_OFFSET, ext)

    async def _put_setting(self, action: Action) -> None:
        name, address = self.brokers[action.number("broker")]
        key, value = action.text("key"), action.text("value")
        body = f"{key}={value}\n".encode()
        await self._change(("setting", name, key), value, address, codes.UPDATE_BROKER_CONFIG, {}, body)

    async def _put_kv(self, action: Action) -> None:
        key, value = action.text("key"), action.text("value")
        ext = ext_of(namespace=KV, key=key, value=value)
        await asyncio.gather(
            *(
                self._change(("kv", address, key), value, address, codes.PUT_KV_CONFIG, ext)
                for address in self._namesrvs
            )
        )

    # -- reading

    async def read_tables(self, view: View) -> None:
        """What brokers and name servers say of each key that was changed."""
        addresses = dict(self.brokers)
        sent_to = {send.content.topic for send in self._ledger.sends}
        for key in sorted(self._ledger.changes):
            if key[0] == "kv":
                view.tables[key] = await self._kv(key[1], key[2])
            elif key[0] == "topic" and key[2] in sent_to:
                continue  # each send to it may create it
            elif key[0] == "topic":
                found = await self.admin.topic_config_at(addresses[key[1]], key[2])
                view.tables[key] = found.read_queue_nums if found is not None else None
            elif key[0] == "group":
                groups = await self.admin._groups_at(addresses[key[1]])
                view.tables[key] = groups[key[2]].retry_max_times if key[2] in groups else None
            elif key[0] == "offset":
                queue = Queue(key[1], key[3], int(key[4]))
                found_offset = await self.offset(addresses[key[1]], key[2], queue)
                view.tables[key] = None if found_offset < 0 else found_offset

    async def _kv(self, address: str, key: str) -> str | None:
        accept = (codes.SUCCESS, codes.QUERY_NOT_FOUND)
        answer = await self.admin.ask(address, codes.GET_KV_CONFIG, ext_of(namespace=KV, key=key), accept=accept)
        return answer.ext().get("value") if answer.code == codes.SUCCESS else None

    async def offset(self, address: str, group: str, queue: Queue) -> int:
        """A group's committed offset, -1 for none."""
        answer = await self.admin.ask(
            address,
            codes.QUERY_CONSUMER_OFFSET,
            ext_of(consumerGroup=group, topic=queue.topic, queueId=queue.number, setZeroIfNotFound=False),
            accept=(codes.SUCCESS, codes.QUERY_NOT_FOUND),
        )
        return int(answer.ext()["offset"]) if answer.code == codes.SUCCESS else -1
