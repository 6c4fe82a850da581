"""A name server and a broker on virtual time and disks in memory, and hostile peers that talk to them.

Everything runs in one thread, and the same bytes give the same run. Minutes of waiting pass in milliseconds, so ticks,
delays, held pulls and timeouts are part of every run.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Coroutine
from typing import Any, Final

from bolide.broker.options.composed import BrokerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from proof.fuzz.one_loop import SimulatedWorld, Universe, VirtualLoop
from proof.fuzz.requests import written
from proof.fuzz.target import Broken

BROKER_IP: Final = "10.0.0.2"
NAMES_IP: Final = "10.0.0.1"
PATIENCE_S: Final = 120.0
"""Virtual seconds in which a plain send is answered, whatever was asked before."""
CONF: Final = "/etc/broker.conf"
_SETTINGS: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 4000,
    "mapped_file_size_consume_queue_ext": 4096,
    "max_hash_slot_num": 50,
    "max_index_num": 400,
    "mapped_file_size_timer_log": 1 << 12,
    "enable_consume_queue_ext": True,
    "enable_calc_filter_bit_map": True,
    "fast_port_enable": "true",
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "enable_property_filter": True,
    "trace_topic_enable": True,
    "store_path_root_dir": "/store",
    "bind_address": BROKER_IP,
}


class Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.found.append(record)


class Peer:
    """The client's end of a connection: an asyncio protocol that keeps the commands that arrive."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.alive = False
        self.arrived: list[Command] = []
        self._frames = FramedConnection()

    def connection_made(self, transport: Any) -> None:
        """The connection is there."""
        self.transport = transport
        self.alive = True

    def data_received(self, data: bytes) -> None:
        """Frames, whole or not."""
        self.arrived += self._frames.receive(data)

    def eof_received(self) -> bool:
        """The other side ended."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.alive = False

    def pause_writing(self) -> None:
        """The other side is slow."""

    def resume_writing(self) -> None:
        """The other side has caught up."""

    def write(self, data: bytes) -> None:
        """Send bytes; a connection that is gone swallows them."""
        if self.alive and data:
            self.transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self.alive:
            self.alive = False
            self.transport.close()


class House:
    """Both daemons, started. `errors` has what they logged as errors."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.errors = Errors()
        self._opaque = 0
        logger = logging.getLogger()
        logger.addHandler(self.errors)
        self._quiet = logging.getLogger("bolide").level
        logging.getLogger("bolide").setLevel(logging.ERROR)
        asyncio.set_event_loop(self.loop)
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the virtual loop to its end."""
        return self.loop.run_until_complete(work)

    async def _start(self) -> None:
        universe = Universe(7)
        self.client: SimulatedWorld = universe.world("10.0.0.9", 300)
        self._names_world = universe.world(NAMES_IP, 100)
        self._broker_world = universe.world(BROKER_IP, 200)
        self._broker_world.disk.make_dir("/etc")
        self._broker_world.disk.write_file(CONF, b"brokerName=broker-a\n")
        names = NamesrvOptions(
            bind_address=NAMES_IP, kv_config_path="/names/kv.json", config_store_path="/names/n.conf"
        )
        self._names_world.disk.make_dir("/names")
        self.namesrv = NamesrvNode(names, world=self._names_world)
        await self.namesrv.start()
        await self._start_broker()

    async def _start_broker(self) -> None:
        options = BrokerOptions.of(namesrv_addr=self.namesrv.address, broker_name="broker-a", **_SETTINGS)
        self.broker = BrokerNode(options, conf=CONF, world=self._broker_world)
        await self.broker.start()

    async def restart(self) -> None:
        """Stop the broker and start it on what it left."""
        await self.broker.stop()
        await self._start_broker()

    def close(self) -> None:
        """Stop everything."""
        self.run(self._stop())
        logging.getLogger().removeHandler(self.errors)
        logging.getLogger("bolide").setLevel(self._quiet)
        self.loop.close()
        asyncio.set_event_loop(None)

    async def _stop(self) -> None:
        await self.broker.stop()
        await self.namesrv.stop()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(1)

    def table(self, daemon: str) -> list[tuple[int, type[Header] | None]]:
        """Codes and headers of the rows of a daemon."""
        if daemon == "namesrv":
            names = self.namesrv._server.table.rows
            return [(code, names[code].header) for code in sorted(names)]
        rows = self.broker.parts.services.table.rows
        return [(code, rows[code].header) for code in sorted(rows)]

    async def connect(self, port: str) -> Peer:
        """A connection to "broker", "fast" or "namesrv"."""
        if port == "namesrv":
            host, number = NAMES_IP, self.namesrv.port
        else:
            host, number = BROKER_IP, self.broker.port - (2 if port == "fast" else 0)
        found: Peer = await self.client.connect(Peer, host, number, None)
        return found

    def next_opaque(self) -> int:
        """A number for a request."""
        self._opaque += 1
        return self._opaque

    async def plain_send(self) -> int:
        """What an honest producer is answered: a response code. Raises `Broken` when it is not answered."""
        peer = await self.connect("broker")
        header = SendMessageRequestHeaderV2(
            producer_group="honest", topic="honest", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
            sys_flag=0, born_timestamp=1, flag=0, properties="", reconsume_times=0, unit_mode=False, batch=False,
        )  # fmt: skip
        opaque = self.next_opaque()
        peer.write(written(make_request(codes.SEND_MESSAGE_V2, opaque, header.to_ext(), b"honest")))
        end = self.loop.time() + PATIENCE_S
        while not any(command.opaque == opaque for command in peer.arrived):
            if self.loop.time() > end or not peer.alive:
                raise Broken(
                    f"a plain send is not answered within {PATIENCE_S:g} s; the connection lives: {peer.alive}"
                )
            await asyncio.sleep(0.01)
        peer.close()
        return next(command.code for command in peer.arrived if command.opaque == opaque)

    def check(self, peers: list[Peer]) -> None:
        """Raise `Broken` for an answer or a line of the log that tells of an internal error."""
        for record in self.errors.found:
            error = record.exc_info[1] if record.exc_info else None
            self.errors.found.clear()
            raise Broken(f"logged: {record.getMessage()[:300]}") from error
        for peer in peers:
            for command in peer.arrived:
                if command.is_response and command.code == codes.SYSTEM_ERROR and names_an_exception(command.remark):
                    raise Broken(f"an answer is {command.remark!r:.200}")


def names_an_exception(remark: str | None) -> bool:
    """Whether a remark begins with the name of one of Python's own exceptions."""
    name = (remark or "").partition(":")[0].partition(" ")[0]
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)
