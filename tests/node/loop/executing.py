"""An executor over a real store, with a host that records its calls and handlers that a test defines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Hold, NewRecords, Outcome, Parked, Waiter, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.options.composed import BrokerOptions
from bolide.layout.message_id import encode_host
from bolide.layout.shape import StoreShape
from bolide.node.loop.executor import Executor
from bolide.node.loop.services import Services
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from tests.broker.parts import message

NOW = 1_700_000_000_000
SENDS, PULLS, OTHER, CREATES = 1, 2, 3, codes.UPDATE_AND_CREATE_TOPIC


class NotingHost:
    """Notes what is asked; frames reach `written` when the channel is written."""

    def __init__(self) -> None:
        self.written: dict[int, list[Command]] = {}
        self.closed: list[Channel] = []
        self.turns = 0
        self.flushes: list[int] = []
        self.loads: list[tuple[list[Any], Callable[[int], None]]] = []
        self.persisted: list[tuple[set[str], Callable[[str], None]]] = []
        self.registered: set[str] = set()
        self.store_errors: list[BaseException] = []
        self.faults: list[str] = []
        self.refusals: list[int] = []

    def write(self, channel: Channel) -> int:
        frames, channel.frames = channel.frames, []
        self.written.setdefault(channel.id, []).extend(FramedConnection().receive(b"".join(frames)))
        return 0

    def pause_reading(self, channel: Channel) -> None:
        raise AssertionError("nobody is slow here")

    def resume_reading(self, channel: Channel) -> None:
        raise AssertionError("nobody is slow here")

    def close(self, channel: Channel) -> None:
        self.closed.append(channel)

    def another_turn(self) -> None:
        self.turns += 1

    def start_flush(self, target: int) -> None:
        self.flushes.append(target)

    def load(self, extents: list[Any], then: Callable[[int], None], fetched: Any = None) -> None:
        self.loads.append((extents, then))

    def run(self, job: Any, done: Callable[[Any, str], None]) -> None:
        return None

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        self.persisted.append((names, then))

    def register(self, topic_names: set[str]) -> None:
        self.registered |= topic_names

    def store_failed(self, error: BaseException) -> None:
        self.store_errors.append(error)

    def failed(self, what: str, error: BaseException) -> None:
        self.faults.append(f"{what}: {error}")

    def refused(self, channel: Channel, request: Command, response: Command) -> None:
        self.refusals.append(response.code)


class FaultyFiles(RealFiles):
    """Real files whose writes fail while `full` is set."""

    full = False

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        if self.full and max(map(len, buffers)) > 64:
            raise FileFailed("no")
        super().write_at(handle, buffers, offset)


class Handlers(Service):
    """Answers every code with a function of the test."""

    def __init__(self, world: World) -> None:
        self.world = world

    def routes(self) -> Routes:
        row = [RawRoute(code, None, self.on_any, Kind.CHANGE) for code in (SENDS, PULLS, OTHER, CREATES)]
        return [*row, RawRoute(codes.PULL_MESSAGE, None, self.on_any, Kind.PULL, durable=False)]

    def on_any(self, channel: Channel, command: Command, now: int) -> Outcome:
        return self.world.answers[command.code](channel, command, now)

    def channel_closed(self, channel: Channel, now: int) -> None:
        self.world.closed_channels.append(channel)


class World:
    """An executor over a real store; handlers are functions of a test."""

    host_type: type[NotingHost] = NotingHost

    def __init__(self, folder: Path, sync: bool = True, broker: BrokerOptions | None = None) -> None:
        self.files = FaultyFiles()
        options = StoreOptions(flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH")
        shape = StoreShape(commit_log_segment_size=1 << 20, index_slots=100, index_entries=400)
        self.store = MessageStore(self.files, str(folder), shape, options)
        self.store.load(NOW)
        self.door = LogWriter(self.store, encode_host("127.0.0.1", 1), 18, TimerRules(BrokerOptions()))
        self.answers: dict[int, Callable[[Channel, Command, int], Outcome]] = {}
        self.effects = Effects()
        self.host = self.host_type()
        self.waiters = WaitTable(100)
        self.services = Services([self.handlers()])
        self.closed_channels: list[Channel] = []
        self.executor = Executor(
            self.services,
            self.effects,
            self.host,
            BrokerStats(NOW),
            self.store,
            self.waiters,
            broker or BrokerOptions(),
        )
        self.peer = Channel(1, encode_host("10.0.0.1", 2), "10.0.0.1:2")
        self.other = Channel(2, encode_host("10.0.0.2", 2), "10.0.0.2:2")

    def handlers(self) -> Service:
        return Handlers(self)

    def do(self, code: int, outcome: Any, oneway: bool = False, now: int = NOW) -> None:
        """One request of the peer, answered by `outcome` (a value, an exception, or a function of the command)."""

        def answer(channel: Channel, command: Command, now: int) -> Outcome:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome(command) if callable(outcome) else outcome

        self.answers[code] = answer
        self.executor.handle(self.peer, make_request(code, 77, oneway=oneway), frozenset(), now)

    def store_one(self, wait: bool = True, topic: str = "T", table: str = "") -> Callable[[Command], Outcome]:
        def outcome(command: Command) -> Outcome:
            if table:
                self.effects.persist(table)
            put = self.door.put(message(topic, 0, b"body", "k\x01" + "v" * 100 + "\x02"), NOW)
            return Parked(reply(make_response(command, 0)), put.end_offset, wait)

        return outcome

    def turn(self, now: int = NOW) -> None:
        self.executor.end_of_turn(now)

    def flush(self) -> None:
        target = self.host.flushes.pop(0)
        self.store.sync_commit_log(target)
        self.executor.flushed(target, NOW)

    def got(self, channel: Channel | None = None) -> list[tuple[int, str | None]]:
        return [(answer.code, answer.remark) for answer in self.host.written.pop((channel or self.peer).id, [])]


def held(world: World, offset: int = 0, deadline: int = NOW + 100) -> Callable[[Command], Outcome]:
    def outcome(command: Command) -> Outcome:
        def again(now: int) -> Outcome:
            return reply(make_response(command, 19, "again"))

        return Hold(Waiter(world.peer, command, ("T", 0), deadline, again, NewRecords(offset)))

    return outcome
