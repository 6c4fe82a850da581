"""UNIQ_KEY, the message id of a producer (RocketMQ's MessageClientIDSetter): address, pid, hash, time, counter.

Only length and uniqueness matter to brokers. A forked child gets a different prefix.
"""

from __future__ import annotations

import ipaddress
import time
from typing import Final
from weakref import WeakKeyDictionary

from bolide.client.instance.process_id import process_id
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

_BYTES: Final = [f"{number:02X}" for number in range(256)]
"""The two digits of each byte: a look-up costs less than formatting a number."""


def _month_start_ms(now: float) -> tuple[int, int]:
    """Return the start of this month and of the next, local time, in ms."""
    today = time.localtime(now)
    start = (today.tm_year, today.tm_mon, 1, 0, 0, 0, 0, 0, -1)
    after = (today.tm_year, today.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1)  # mktime takes month 13 as the next January
    return int(time.mktime(start) * 1000), int(time.mktime(after) * 1000)


class UniqueIds:
    """Generates ids of 32 hexadecimal digits, unique across machines, processes and restarts."""

    def __init__(self, world: World = THE_WORLD, ip: str | None = None) -> None:
        self._world = world
        self._wall_ms = world.wall_ms
        self._ip = ip or world.own_ip()
        self._pid = 0
        """Id of the process for which the prefix was made."""
        self._prefix = ""
        self._counter = 0
        self._start = self._after = 0
        self._now = -1
        self._until_now = ""
        """The prefix and the time `_now`: several messages are often sent within one ms."""

    def next_id(self) -> str:
        """Return a new id."""
        if process_id() != self._pid:
            self._begin()
        now = self._wall_ms()
        if now != self._now:
            self._tick(now)
        self._counter = counter = (self._counter + 1) & 0xFFFF
        return f"{self._until_now}{_BYTES[counter >> 8]}{_BYTES[counter & 0xFF]}"

    def _tick(self, now: int) -> None:
        if now >= self._after:
            self._start, self._after = _month_start_ms(now / 1000)
        self._now = now
        self._until_now = f"{self._prefix}{(now - self._start) & 0xFFFFFFFF:08X}"

    def _begin(self) -> None:
        self._pid = process_id()
        pid = self._world.process_id()
        # Java uses the hash of its class loader: any number of this process will do.
        random = self._world.random.randbytes(4)
        ip = ipaddress.IPv4Address(self._ip).packed
        self._prefix = (ip + (pid & 0xFFFF).to_bytes(2, "big") + random).hex().upper()
        self._now = -1


def default_client_id(instance: str = "DEFAULT", world: World = THE_WORLD) -> str:
    """Return ``ip@instance`` as in Java; DEFAULT becomes ``pid#nanoseconds``, the same value for the whole process."""
    if instance == "DEFAULT":
        instance = _process_name(world)
    return f"{world.own_ip()}@{instance}"


_processes: WeakKeyDictionary[World, tuple[int, str]] = WeakKeyDictionary()


def _process_name(world: World) -> str:
    pid = world.process_id()
    known = _processes.get(world)
    if known is None or known[0] != pid:  # a forked child is another process
        known = _processes[world] = (pid, f"{pid}#{int(world.monotonic() * 1e9)}")
    return known[1]
