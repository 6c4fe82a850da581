"""Reserved ports: processes, and a fork and its parent, never reserve the same one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from proof.kit import ports
from proof.kit.ports import reserve_port

MANY = """
from proof.kit.ports import reserve_port
print(*(reserve_port(1, -2) for _ in range(40)), flush=True)
input()
"""


def test_processes_side_by_side_reserve_different_ports() -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", MANY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found: list[int] = []
    for process in running:
        assert process.stdout is not None
        found += map(int, process.stdout.readline().split())
    for process in running:
        process.communicate("\n")
    every = [port + near for port in found for near in (-2, 0, 1)]
    assert len(found) == 120 and len(set(every)) == len(every)


def test_a_port_in_use_is_not_reserved_and_a_neighbour_is_not_reserved_again() -> None:
    first = reserve_port(1)
    with socket.create_server(("127.0.0.1", first)):
        assert {first, first + 1}.isdisjoint(reserve_port() for _ in range(5))


def test_a_fork_reserves_ports_of_another_block() -> None:
    reserve_port()  # so that this process owns a block
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, b"%d" % reserve_port())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = int(pipe.read())
    mine = reserve_port()
    assert theirs // ports._BLOCK != mine // ports._BLOCK


def test_reserving_fails_without_a_free_block(monkeypatch: pytest.MonkeyPatch) -> None:
    first = reserve_port()
    monkeypatch.setattr(ports, "_FIRST", first)
    monkeypatch.setattr(ports, "_LAST", first + ports._BLOCK)
    fresh = ports._Ports()
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        with pytest.raises(OSError, match=f"no ports from {first} to {first + ports._BLOCK} are left"):
            fresh.reserve((1, -2))
