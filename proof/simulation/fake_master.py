"""A fake broker and the fake master of its log, to which an attacker lures replicas."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from bolide.remoting import codes
from bolide.remoting.command import encode, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.switch_frames import encode_answer, encode_header
from proof.simulation.replicas import HA_PORT
from proof.simulation.spied import Spied

BROKER_PORT: Final = 10911
HUGE: Final = (1 << 31) - 2
WAYS: Final = ("shorter", "shorter", "nothing", "higher", "empty", "other", "bytes", "half", "silent", "plain")
"""Behaviours of the fake master. `shorter` and `nothing` follow the protocol and make replicas truncate."""
_RECORDS: Final = 200
_REPORT: Final = struct.Struct(">iq")


class Raw(asyncio.Protocol):
    """One connection: what arrives is appended to `data`."""

    def __init__(self, arrived: Callable[[Raw], None] | None = None) -> None:
        self.data = b""
        self.closed = False
        self.news = asyncio.Event()
        self._arrived = arrived
        self._transport: Any = None

    @property
    def peer(self) -> str:
        """The IP address of the other end."""
        return str(self._transport.get_extra_info("peername")[0])

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.news.set()
        if self._arrived is not None:
            self._arrived(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.news.set()

    def send(self, data: bytes) -> None:
        """Write, unless the peer has closed the connection."""
        if not self.closed:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if not self.closed:
            self._transport.close()

    async def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until this holds or the connection ends. Return whether it holds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (condition() or self.closed):
                    self.news.clear()
                    await self.news.wait()
        return condition()


class FakeMaster:
    """The ports of an attacker."""

    def __init__(self, spied: Spied, followed: Callable[[str], None]) -> None:
        """Calls `followed` with the name of each replica that sends a handshake."""
        self.followed = followed
        self.says = "silent"
        """One of `WAYS`."""
        self.handshakes = 0
        """Number of handshakes that replicas have sent."""
        self._spied = spied

    async def serve(self, world: Any) -> None:
        """Open the ports."""
        ip = world.own_ip()
        await world.bind(ip, BROKER_PORT).serve(partial(_Answering, f"{ip}:{HA_PORT}"))
        await world.bind(ip, HA_PORT).serve(lambda: _Leading(self, self._spied))


class _Answering(Raw):
    """A broker that serves its log at an address, and returns an error for every other request."""

    def __init__(self, log_address: str) -> None:
        super().__init__()
        self._log_address = log_address
        self._framed = FramedConnection()

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._framed.receive(data)
        except FrameError:
            self.close()
            return
        for command in commands:
            if not command.is_response and not command.is_oneway:
                asked = command.code == codes.EXCHANGE_BROKER_HA_INFO
                ext = {"masterHaAddress": self._log_address} if asked else {}
                code = codes.SUCCESS if asked else codes.SYSTEM_ERROR
                self.send(encode(make_response(command, code, "an attacker", ext)))


class _Leading(Raw):
    """The log port, with one replica."""

    def __init__(self, of: FakeMaster, spied: Spied) -> None:
        super().__init__()
        self._of = of
        self._spied = spied
        self._node = ""
        self._epochs = Epochs()
        self._end = 0
        self._answered = False

    def data_received(self, data: bytes) -> None:
        self.data += data
        if not self._answered:
            self._answered = True
            self._node = self._spied.node_at(self.peer)
            if self.data.startswith(struct.pack(">i", 1)):
                self._of.handshakes += 1
                self._of.followed(self._node)
            self.data = b""
            if self._node:
                self._answer(self._of.says)
        while len(self.data) >= _REPORT.size:
            state, offset = _REPORT.unpack_from(self.data)
            self.data = self.data[_REPORT.size :]
            if state == 2:
                self._transfer(offset)

    def _answer(self, says: str) -> None:
        known = self._spied.epochs(self._node)
        last = known.last or Epoch(1, 0)
        named = self._named(last)
        if says in ("shorter", "nothing"):
            self._end = 0 if says == "nothing" else self._cut()
            older = [each for each in known.entries if each.number < named and each.start < self._end]
            if not older and known.entries and named == last.number:
                older, self._epochs = [], Epochs(known.entries[:1])
            if older:
                self._epochs = Epochs((*older, Epoch(named, self._end)))
            elif not self._epochs.entries:
                self._epochs = Epochs((Epoch(named, 0),))
            self.send(encode_answer(self._epochs, self._end))
        elif says == "higher":
            lie = Epoch(HUGE, last.start + 1)
            self.send(encode_answer(Epochs((*known.entries, lie)), 1 << 40))
            self.send(encode_header(last.start + 1, 64, lie, 1 << 40) + bytes(64))
        elif says == "empty":
            self.send(encode_answer(Epochs(), 0))
        elif says == "other":
            self.send(encode_answer(Epochs((Epoch(named, 0),)), 0))
        elif says == "half":
            self.send(encode_answer(known, 1 << 40)[:-5])
        elif says == "plain":
            self.send(struct.pack(">qi", 0, 16) + bytes(16))
        elif says == "bytes":
            self.send(random.Random(last.start).randbytes(400))

    def _named(self, last: Epoch) -> int:
        """Return the epoch that the controller named to the replica."""
        one = self._spied.set_named(self._spied.set_of(self._node))
        return last.number if one is None else max(one.master_epoch, last.number)

    def _cut(self) -> int:
        """Return where one of the first records of the replica's log ends."""
        head = self._spied.log(self._node, 0, 1 << 14)
        ends, at = [0], 0
        while len(ends) < _RECORDS and at + 4 <= len(head):
            size = int.from_bytes(head[at : at + 4], "big")
            if size < 8 or at + size > min(len(head), self._spied.end(self._node)):
                break
            at += size
            ends.append(at)
        return ends[len(ends) // 2]

    def _transfer(self, offset: int) -> None:
        """Send the bytes that the replica compares with its own log, then bytes of no record."""
        covering = self._epochs.covering(offset)
        if covering is None or not 0 <= offset <= self._end:
            return
        stop = min(self._end, self._epochs.end_of(covering.number, self._end))
        part = self._spied.log(self._node, offset, stop) if offset < stop else b"\x7f" * 64
        last = self._epochs.entries[-1]
        epoch = covering if offset < stop else last
        self.send(encode_header(offset, len(part), epoch, 1 << 40) + part)
