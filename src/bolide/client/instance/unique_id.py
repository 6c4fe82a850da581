"""UNIQ_KEY, the message id a producer gives (RocketMQ's MessageClientIDSetter): address, pid, hash, time, counter.

Only length and uniqueness matter to brokers. A forked child gets a prefix of its own.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import Final

_NO_ROUTE_ADDRESS: Final = "203.0.113.1"
"""A documentation address (RFC 5737): connecting a UDP socket to it sends nothing, and shows which address we use."""


def local_ip() -> str:
    """The IPv4 address this machine uses towards others, or 127.0.0.1 when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_NO_ROUTE_ADDRESS, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _month_start_ms(now: float) -> tuple[int, int]:
    """Milliseconds of the first of this month and of the next, local time."""
    today = time.localtime(now)
    start = (today.tm_year, today.tm_mon, 1, 0, 0, 0, 0, 0, -1)
    after = (today.tm_year, today.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1)  # mktime takes month 13 as the next January
    return int(time.mktime(start) * 1000), int(time.mktime(after) * 1000)


class UniqueIds:
    """Makes ids of 32 hexadecimal digits, unique over machines, processes and restarts."""

    def __init__(self, ip: str | None = None) -> None:
        self._ip = ip or local_ip()
        self._pid = -1
        self._prefix = ""
        self._counter = 0
        self._start = self._after = 0

    def next_id(self) -> str:
        """A new id."""
        if os.getpid() != self._pid:
            self._begin()
        now = time.time_ns() // 1_000_000
        if now >= self._after:
            self._start, self._after = _month_start_ms(now / 1000)
        self._counter = counter = (self._counter + 1) & 0xFFFF
        return f"{self._prefix}{(now - self._start) & 0xFFFFFFFF:08X}{counter:04X}"

    def _begin(self) -> None:
        self._pid = os.getpid()
        random = secrets.token_bytes(4)  # Java takes the hash of its class loader: any number of this process will do
        self._prefix = (socket.inet_aton(self._ip) + (self._pid & 0xFFFF).to_bytes(2, "big") + random).hex().upper()


def default_client_id(instance: str = "DEFAULT") -> str:
    """``ip@instance`` as Java builds it; DEFAULT becomes ``pid#nanoseconds``, one value for the whole process."""
    if instance == "DEFAULT":
        instance = _process_name()
    return f"{local_ip()}@{instance}"


_process: list[tuple[int, str]] = []


def _process_name() -> str:
    pid = os.getpid()
    if not _process or _process[-1][0] != pid:
        _process.append((pid, f"{pid}#{time.monotonic_ns()}"))
    return _process[-1][1]
