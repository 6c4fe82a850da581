"""Reads the answers to requests from a plain socket."""

from __future__ import annotations

import socket

from bolide.remoting.command import Command
from bolide.remoting.connection import FramedConnection
from proof.kit.waiting import PATIENCE


def read_answers(sock: socket.socket, count: int) -> list[Command]:
    sock.settimeout(PATIENCE)
    core, found = FramedConnection(), []
    while len(found) < count:
        data = sock.recv(1 << 20)
        assert data, "the broker closed the connection"
        found += core.receive(data)
    return found
