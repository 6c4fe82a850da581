"""A peer for transport tests: answers each request with its own body, or does as the request's code says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.connection import FramedConnection
from proof.kit.waiting import PATIENCE

ECHO, SILENT, CLOSE, SWAP, GARBAGE, ASK = 1, 2, 3, 4, 5, 6


def _serve(sock: socket.socket, seen: list[Command]) -> None:
    core = FramedConnection()
    swapped: list[Command] = []
    with sock:
        while True:
            try:
                data = sock.recv(65536)
            except OSError:
                return
            if not data:
                return
            for command in core.receive(data):
                seen.append(command)
                if command.is_response or command.is_oneway or command.code == SILENT:
                    continue
                if command.code == CLOSE:
                    return
                if command.code == GARBAGE:
                    sock.sendall(b"\x7f" * 16)
                    continue
                if command.code == ASK:
                    sock.sendall(encode(make_request(99, 5)))
                if command.code == SWAP:  # the first of two waits for the second and is answered after it
                    swapped.append(command)
                    if len(swapped) == 2:
                        for held in reversed(swapped):
                            sock.sendall(encode(make_response(held, 0, body=held.body)))
                        swapped.clear()
                    continue
                sock.sendall(encode(make_response(command, 0, body=command.body)))


@contextmanager
def echo_peer() -> Iterator[tuple[str, list[Command]]]:
    """The address of a running peer, and what it has seen."""
    seen: list[Command] = []
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                sockets.append(sock)
                thread = threading.Thread(target=_serve, args=(sock, seen), daemon=True)
                threads.append(thread)
                thread.start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", seen
        server.shutdown(socket.SHUT_RDWR)
    acceptor.join(PATIENCE)
    for sock in sockets:
        with suppress(OSError):  # closed by its own thread already
            sock.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(PATIENCE)
