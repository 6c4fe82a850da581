"""A transport and an owner of connections that record their calls."""

from __future__ import annotations

from typing import Any

from bolide.remoting.command import Command
from bolide.transport.server import ServerConnection


class NotingTransport:
    """Notes what an asyncio transport is asked; `unread` is what the peer has not taken yet."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.written: list[bytes] = []
        self.lines: list[list[Any]] = []
        self.unread = 0

    def set_write_buffer_limits(self, high: int) -> None:
        self.calls.append(f"high {high}")

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("10.0.0.1", 5) if name == "peername" else ("127.0.0.1", 10911)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, buffers: list[Any]) -> None:
        self.lines.append(buffers)

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class NotingOwner:
    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.commands: list[Command] = []
        self.reads = 0
        self.bad: list[Exception] = []
        self.gone: list[Any] = []
        self.caught_up_peers: list[Any] = []

    def connected(self, connection: ServerConnection) -> Any:
        return None if self.refuses else "peer"

    def received(self, peer: Any, commands: list[Command]) -> None:
        self.reads += 1
        self.commands.extend(commands)

    def bad_frame(self, peer: Any, error: Exception) -> None:
        self.bad.append(error)

    def caught_up(self, peer: Any) -> None:
        self.caught_up_peers.append(peer)

    def closed(self, peer: Any) -> None:
        self.gone.append(peer)
