"""A peer for client tests: name server and broker in one, in its own thread, with answers a test may script.

It keeps messages in memory, enough for clients to work; it is no broker, and says nothing about how one behaves.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from librt.strings import BytesWriter

from bolide.layout.message_id import encode_host, offset_message_id
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.connection import FramedConnection
from proof.kit.waiting import PATIENCE
from tests.layout.records import put_record

Answer = Callable[[Command], Command | None]
HOST = encode_host("127.0.0.1", 10911)
TABLE_MADE_S = 0.2


def refusing(code: int, remark: str = "scripted refusal") -> Callable[[Command], Command]:
    """A line of a script: every request is refused with this code."""
    return lambda command: make_response(command, code, remark)


class Client(asyncio.Protocol):
    """One connection of a client under test."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.core = FramedConnection()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.broker.clients.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.broker.clients.remove(self)
        self.broker.held = [held for held in self.broker.held if held[0] is not self]

    def data_received(self, data: bytes) -> None:
        for command in self.core.receive(data):
            if command.is_response:
                self.broker.answers.append(command)
                continue
            self.broker.seen.append(command)
            answer = self.broker.handle(self, command)
            if answer is not None and not command.is_oneway:
                self.write(answer)

    def write(self, command: Command) -> None:
        self.core.send(command)
        self.transport.write(b"".join(self.core.data_to_send()))


class ScriptedBroker:
    """``with ScriptedBroker() as broker:`` listens on `broker.address`, which is name server and broker alike."""

    def __init__(self, name: str = "broker-a", queues: int = 2) -> None:
        self.name = name
        self.queues = queues
        self.seen: list[Command] = []
        self.answers: list[Command] = []
        self.clients: list[Client] = []
        self.held: list[tuple[Client, Command, float]] = []
        self.topics: set[str] = {"T", "TBW102"}
        self.stored: dict[tuple[str, int], list[bytes]] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, set[str]] = {}
        self.script: dict[int, Answer] = {}
        self.others: list[ScriptedBroker] = []
        self.physical = 0
        self.address = ""
        self.addresses: dict[str, str] | None = None
        """What routes say of this broker, by broker id; None: it is the master."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"scripted {name}", daemon=True)
        self._up = threading.Event()

    # -- life

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(self._loop.create_server(lambda: Client(self), "127.0.0.1", 0))
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        self._up.set()
        self._loop.run_forever()
        server.close()
        for client in self.clients:
            client.transport.abort()
        self._loop.run_until_complete(server.wait_closed())
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def on_loop(self, work: Callable[[], Any]) -> Any:
        """Run `work` on the broker's thread and return what it returns."""
        done = threading.Event()
        result: list[Any] = []

        def run() -> None:
            result.append(work())
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(PATIENCE)
        return result[0]

    def cut(self) -> None:
        """Cut every connection."""

        def work() -> None:
            for client in list(self.clients):
                client.transport.abort()

        self.on_loop(work)

    def ask_all(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Send a request to every client."""
        request = make_request(code, 4711, ext, body)

        def work() -> None:
            for client in list(self.clients):
                client.write(request)

        self.on_loop(work)

    def requests(self, code: int) -> list[Command]:
        """The requests with this code seen so far."""
        return [command for command in list(self.seen) if command.code == code]

    # -- answers

    def handle(self, client: Client, command: Command) -> Command | None:
        scripted = self.script.get(command.code)
        if scripted is not None:
            return scripted(command)
        served = getattr(self, f"on_{codes.request_name(command.code).lower()}", None)
        if served is None:
            return make_response(command, codes.REQUEST_CODE_NOT_SUPPORTED, "the script has no such line")
        if command.code in (codes.PULL_MESSAGE, codes.LITE_PULL_MESSAGE):
            return self.on_pull(client, command)
        answer: Command | None = served(command)
        return answer

    def on_get_routeinfo_by_topic(self, command: Command) -> Command:
        topic = command.ext()["topic"]
        if topic not in self.topics:
            return make_response(command, codes.TOPIC_NOT_EXIST, f"no route of {topic}")
        brokers = [self, *self.others]
        route = {
            "brokerDatas": [
                {
                    "brokerAddrs": broker.addresses or {"0": broker.address},
                    "brokerName": broker.name,
                    "cluster": "C",
                }
                for broker in brokers
            ],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": broker.name,
                    "perm": 6,
                    "readQueueNums": broker.queues,
                    "writeQueueNums": broker.queues,
                    "topicSysFlag": 0,
                }
                for broker in brokers
            ],
        }
        return make_response(command, codes.SUCCESS, body=json.dumps(route).encode())

    def on_heart_beat(self, command: Command) -> Command:
        data = json.loads(command.body)
        for consumer in data["consumerDataSet"]:
            self.members.setdefault(consumer["groupName"], set()).add(data["clientID"])
            self.topics.add("%RETRY%" + consumer["groupName"])
        return make_response(command, codes.SUCCESS, ext={})

    def on_unregister_client(self, command: Command) -> Command:
        self.members.get(command.ext().get("consumerGroup", ""), set()).discard(command.ext()["clientID"])
        return make_response(command, codes.SUCCESS)

    def on_get_consumer_list_by_group(self, command: Command) -> Command:
        members = sorted(self.members.get(command.ext()["consumerGroup"], ()))
        return make_response(command, codes.SUCCESS, body=json.dumps({"consumerIdList": members}).encode())

    def on_send_message_v2(self, command: Command) -> Command:
        ext = command.ext()
        queue_offset, message_id = self.store(
            ext["b"], int(ext["e"]), command.body, ext.get("i", ""), int(ext["f"]), int(ext.get("j", "0"))
        )
        return make_response(
            command,
            codes.SUCCESS,
            ext={"msgId": message_id, "queueId": ext["e"], "queueOffset": str(queue_offset), "MSG_REGION": "R"},
        )

    def on_send_batch_message(self, command: Command) -> Command:
        ext = command.ext()
        places = [
            self.store(ext["b"], int(ext["e"]), part.body, part.properties.decode(), int(ext["f"]))
            for part in decode_batch(command.body)
        ]
        ids = ",".join(message_id for _, message_id in places)
        place = {"queueId": ext["e"], "queueOffset": str(places[0][0]), "MSG_REGION": "R"}
        return make_response(command, codes.SUCCESS, ext={"msgId": ids, **place})

    def store(
        self, topic: str, queue_id: int, body: bytes, properties: str, sys_flag: int = 0, reconsume_times: int = 0
    ) -> tuple[int, str]:
        """Keep one message; its queue offset and the broker's id for it."""
        self.topics.add(topic)
        queue = self.stored.setdefault((topic, queue_id), [])
        w = BytesWriter()
        now = int(time.time() * 1000)
        size = put_record(
            w, topic, body, properties.encode(), queue_id=queue_id, queue_offset=len(queue),
            physical_offset=self.physical, sys_flag=sys_flag, born_timestamp=now, store_timestamp=now,
            reconsume_times=reconsume_times,
        )  # fmt: skip
        message_id = offset_message_id(HOST, self.physical)
        self.physical += size
        queue.append(w.getvalue())
        for client, command, _ in [held for held in self.held if held[1].ext()["topic"] == topic]:
            answer = self.pull(command, wait=False)
            if answer is not None:
                client.write(answer)
                self.held = [held for held in self.held if held[1] is not command]
        return len(queue) - 1, message_id

    def on_pull_message(self, command: Command) -> Command | None:
        raise AssertionError("pulls go to on_pull")

    on_lite_pull_message = on_pull_message

    def on_pull(self, client: Client, command: Command) -> Command | None:
        answer = self.pull(command, wait=bool(int(command.ext()["sysFlag"]) & 2))
        if answer is None:
            self.held.append((client, command, time.monotonic()))
        return answer

    def pull(self, command: Command, wait: bool) -> Command | None:
        ext = command.ext()
        queue = self.stored.get((ext["topic"], int(ext["queueId"])), [])
        offset = int(ext["queueOffset"])
        found = queue[offset : offset + int(ext["maxMsgNums"])]
        code = codes.SUCCESS if found else codes.PULL_NOT_FOUND if offset == len(queue) else codes.PULL_OFFSET_MOVED
        if code == codes.PULL_NOT_FOUND and wait:
            return None
        following = len(queue) if code == codes.PULL_OFFSET_MOVED else offset + len(found)
        places = {
            "nextBeginOffset": str(following),
            "minOffset": "0",
            "maxOffset": str(len(queue)),
            "suggestWhichBrokerId": "0",
        }
        return make_response(command, code, ext=places, body=b"".join(found))

    def _offset_key(self, command: Command) -> tuple[str, str, int]:
        ext = command.ext()
        return ext["consumerGroup"], ext["topic"], int(ext["queueId"])

    def on_query_consumer_offset(self, command: Command) -> Command:
        offset = self.offsets.get(self._offset_key(command))
        if offset is None:
            return make_response(command, codes.QUERY_NOT_FOUND, "none")
        return make_response(command, codes.SUCCESS, ext={"offset": str(offset)})

    def on_update_consumer_offset(self, command: Command) -> Command:
        self.offsets[self._offset_key(command)] = int(command.ext()["commitOffset"])
        return make_response(command, codes.SUCCESS)

    def on_get_max_offset(self, command: Command) -> Command:
        ext = command.ext()
        count = len(self.stored.get((ext["topic"], int(ext["queueId"])), []))
        return make_response(command, codes.SUCCESS, ext={"offset": str(count)})

    def on_get_min_offset(self, command: Command) -> Command:
        return make_response(command, codes.SUCCESS, ext={"offset": "0"})

    def on_lock_batch_mq(self, command: Command) -> Command:
        wanted = json.loads(command.body)["mqSet"]
        return make_response(command, codes.SUCCESS, body=json.dumps({"lockOKMQSet": wanted}).encode())

    def on_unlock_batch_mq(self, command: Command) -> Command:
        return make_response(command, codes.SUCCESS)

    def on_consumer_send_msg_back(self, command: Command) -> Command:
        return make_response(command, codes.SUCCESS)


class UnlockedOffsets(ScriptedBroker):
    """Stores offsets as a Java broker does: a first commit of a group in a topic that finds no table makes one, in a
    thread of its own, and it replaces a table that another first commit has made meanwhile.
    """

    def handle(self, client: Client, command: Command) -> Command | None:
        if command.code != codes.UPDATE_CONSUMER_OFFSET or command.code in self.script or self._has_table(command):
            return super().handle(client, command)
        self._loop.call_later(TABLE_MADE_S, self._make_table, client, command)
        return None

    def _has_table(self, command: Command) -> bool:
        return any(key[:2] == self._offset_key(command)[:2] for key in self.offsets)

    def _make_table(self, client: Client, command: Command) -> None:
        own = self._offset_key(command)
        self.offsets = {key: offset for key, offset in self.offsets.items() if key[:2] != own[:2]}
        answer = self.on_update_consumer_offset(command)
        if not command.is_oneway:
            client.write(answer)
