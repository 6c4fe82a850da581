"""Name servers and brokers for sequences, what an operator does to them, and the records of their logs."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bolide.namesrv.options import NamesrvOptions
from bolide.node.namesrv import NamesrvNode
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from proof.kit.wire import GET_ROUTE, SEND_MESSAGE_V2, Wire, send_ext
from proof.reader.frames import Frame
from proof.reader.records import BLANK, Record, leading

UPDATE_TOPIC, GET_MAX_OFFSET, DELETE_IN_BROKER, DELETE_IN_NAMESRV = 17, 30, 215, 216
BUSY = 2
PATIENCE_S = 120.0
SEGMENT = 64 * 1024


@dataclass(frozen=True)
class Sent:
    """A message to send."""

    queue_id: int
    body: bytes
    properties: str
    sys_flag: int


class Named(Protocol):
    """A name server that runs."""

    address: str

    def stop(self) -> object:
        """Stop it."""


class NameServer:
    """Bolide's name server on a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.address = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="name-server", daemon=True)
        self._thread.start()
        if not self._ready.wait(PATIENCE_S):
            raise TimeoutError("the name server did not start")

    async def _serve(self) -> None:
        node = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(self._folder / "kvConfig.json")))
        await node.start()
        self._end, self._loop, self.address = asyncio.Event(), asyncio.get_running_loop(), node.address
        self._ready.set()
        await self._end.wait()
        await node.stop()

    def stop(self) -> None:
        """Stop it."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)


class PlainLog:
    """The records of a running broker's log by topic, read on from where the last look ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._rows: dict[str, list[Record]] = {}
        self.end = 0

    def rows(self, topic: str) -> list[Record]:
        """The records of a topic that are still in the files."""
        with self._lock:
            first = self._read()
            return [row for row in self._rows.get(topic, ()) if row.at >= first]

    def look(self) -> int:
        """The offset after the last record."""
        with self._lock:
            self._read()
            return self.end

    def _read(self) -> int:
        bases = sorted((int(path.name), path) for path in self._folder.glob("commitlog/[0-9]*"))
        for number, (base, path) in enumerate(bases):
            after = bases[number + 1][0] if number + 1 < len(bases) else -1
            if 0 <= after <= self.end:
                continue
            with path.open("rb") as file:
                file.seek(max(self.end - base, 0))
                data = file.read()
            shift = max(self.end - base, 0)
            run = leading(data, base + shift)
            self.end = base + shift + run.end
            for row in run.records:
                self._rows.setdefault(row.topic, []).append(row)
            if int.from_bytes(data[run.end + 4 : run.end + 8]) != BLANK or after < 0:
                break
            self.end = after
        return bases[0][0] if bases else 0


class Server:
    """One broker: its process in this one, its folder, and copies of that."""

    def __init__(self, name: str, home: Path, namesrv: str, segment: int = SEGMENT) -> None:
        self.name = name
        self.store = home / name
        self._home = home
        self._settings = {
            "broker_name": name, "namesrv_addr": namesrv, "mapped_file_size_commit_log": segment,
            "auto_create_topic_enable": False,
        }  # fmt: skip
        self._broker: Broker | None = None
        self._copies = 0
        self.log = PlainLog(self.store)
        self.deleted: dict[str, int] = {}
        """Where the log ended when a topic was deleted."""
        self._kept: list[dict[str, int]] = []
        self.destroyed = False
        """Whether an operator destroyed messages that no topic's deletion took."""

    def use(self, store: Path) -> None:
        """Its files are in this folder."""
        self.store, self.log = store, PlainLog(store)

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self._broker is not None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._broker is not None
        return self._broker.broker_addr

    def start(self) -> None:
        """Start it on its folder."""
        if self._broker is None:
            broker = Broker(str(self.store), **self._settings)
            broker.start()
            self._broker = broker

    def stop(self) -> None:
        """Stop it; it leaves the route."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def rows(self, topic: str) -> list[Record]:
        """The records of the topic as it is now."""
        return [row for row in self.log.rows(topic) if row.at >= self.deleted.get(topic, 0) and row.queued]

    def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Frame:
        """One request. Raises AssertionError if the broker refuses it."""
        with Wire(int(self.address.rpartition(":")[2]), PATIENCE_S) as wire:
            answer = wire.ask(code, ext, body)
        assert answer.code == 0, (code, ext, answer.code, answer.remark)
        return answer

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        was = self.up
        self.stop()
        yield
        if was:
            self.start()

    def copy(self) -> int:
        """Stop, copy the folder, start."""
        with self._stopped():
            shutil.copytree(self.store, self._home / f"{self.name}-copy-{self._copies}")
            self._kept.append(dict(self.deleted))
        self._copies += 1
        return self._copies - 1

    def restore(self, number: int) -> bool:
        """Put an older copy in its place; False if there is none."""
        if not self._copies:
            return False
        number %= self._copies
        self.destroyed = True
        with self._stopped():
            shutil.rmtree(self.store)
            shutil.copytree(self._home / f"{self.name}-copy-{number}", self.store)
            self.log, self.deleted = PlainLog(self.store), dict(self._kept[number])
        return True

    def replace(self) -> None:
        """An empty broker takes its name."""
        self.destroyed = True
        with self._stopped():
            shutil.rmtree(self.store)
            self.log, self.deleted = PlainLog(self.store), {}

    def expire(self) -> bool:
        """The oldest file of the log is deleted; False if there is only one with records."""
        files = sorted(path for path in self.store.glob("commitlog/[0-9]*") if int(path.name) < self.log.look())
        if len(files) < 2:
            return False
        self.destroyed = True
        with self._stopped():
            files[0].unlink()
        return True


class Brokers:
    """A name server and its brokers."""

    def __init__(self, namesrv: Named, servers: list[Server]) -> None:
        self._namesrv = namesrv
        self.servers = servers

    @classmethod
    def of(cls, home: Path, names: tuple[str, ...], segment: int = SEGMENT) -> Brokers:
        """Bolide's, none of them started yet."""
        home.mkdir(parents=True, exist_ok=True)
        namesrv = NameServer(home)
        return cls(namesrv, [Server(name, home, namesrv.address, segment) for name in names])

    @property
    def address(self) -> str:
        """The name server's."""
        return self._namesrv.address

    @property
    def up(self) -> list[Server]:
        """The brokers that run."""
        return [server for server in self.servers if server.up]

    def close(self) -> None:
        """Stop all."""
        for server in self.servers:
            server.stop()
        self._namesrv.stop()

    def settle(self, server: Server, topic: str, ends: dict[int, int]) -> None:
        """Wait until these ends of queues can be read: Java's broker answers before its queues know a message."""
        for queue_id, end in ends.items():
            ext = {"topic": topic, "queueId": str(queue_id)}

            def reached(ext: dict[str, str] = ext, end: int = end) -> bool:
                return int(server.ask(GET_MAX_OFFSET, ext).ext["offset"]) >= end

            wait_until(reached, f"offset {end} of {topic}:{queue_id}")

    def set_topic(self, server: Server, topic: str, queues: int) -> None:
        """Create or change a topic on one broker; returns when the name server says so."""
        ext = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        server.ask(UPDATE_TOPIC, ext)
        wait_until(lambda: self.route(topic).get(server.name) == queues, f"the route of {topic} at {server.name}")

    def delete_topic(self, topic: str) -> None:
        """Delete it on all brokers that run, and in the name server."""
        for server in self.up:
            server.deleted[topic] = server.log.look()
            server.ask(DELETE_IN_BROKER, {"topic": topic})
        with Wire(int(self.address.rpartition(":")[2]), PATIENCE_S) as wire:
            wire.ask(DELETE_IN_NAMESRV, {"topic": topic})
        wait_until(lambda: not self.route(topic), f"{topic} without a route")

    def route(self, topic: str) -> dict[str, int]:
        """Read queues by broker, as the name server has them."""
        with Wire(int(self.address.rpartition(":")[2]), PATIENCE_S) as wire:
            answer = wire.ask(GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})
        if answer.code:
            return {}
        return {one["brokerName"]: one["readQueueNums"] for one in json.loads(answer.body)["queueDatas"]}

    def send(self, server: Server, topic: str, messages: Iterable[Sent]) -> None:
        """Send messages, one after the other. Raises AssertionError unless each is acknowledged."""
        ends: dict[int, int] = {}
        with Wire(int(server.address.rpartition(":")[2]), PATIENCE_S) as wire:
            for one in messages:
                fields = {"e": str(one.queue_id), "f": str(one.sys_flag), "i": one.properties, "n": server.name}
                answer = wire.ask(SEND_MESSAGE_V2, send_ext(topic, **fields), one.body)
                while answer.code == BUSY:  # nothing was stored
                    time.sleep(0.05)
                    answer = wire.ask(SEND_MESSAGE_V2, send_ext(topic, **fields), one.body)
                assert answer.code == 0, (topic, one.queue_id, answer.code, answer.remark)
                ends[int(answer.ext["queueId"])] = int(answer.ext["queueOffset"]) + 1
        self.settle(server, topic, ends)
