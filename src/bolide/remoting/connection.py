"""A remoting connection without its socket: bytes in, commands out; commands in, buffers out.

The owner of the socket passes the received bytes to `receive`, and writes all buffers of `data_to_send` once per loop
iteration. A frame has at most 16 MiB including its length (NettyDecoder.java). The length is checked before any byte of
the frame is stored, so a peer can make a connection store at most `max_frame` bytes. After a `FrameError` the
connection is unusable: close the socket.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import Command, decode_binary_header, decode_json_header, encode_head
from bolide.remoting.errors import FrameError

MAX_FRAME: Final = 16_777_216
MAX_QUEUED: Final = 64 * 1024 * 1024
LONG: Final = 64 * 1024  # bytes: the body of a longer frame is not joined with its head first
SMALL: Final = 4096  # bytes: smaller pieces of a frame are joined on arrival
JOIN_BELOW: Final = 4096  # bytes: a smaller body is cheaper to append to its head than to send as a separate buffer


@final
class FramedConnection:
    """Framing state of one connection.

    `max_frame` is the maximum size of a frame in bytes, including its length field. If more than `max_queued` bytes are
    waiting to be sent, `full` is True, and the owner must stop reading requests.
    """

    def __init__(self, max_frame: int = MAX_FRAME, max_queued: int = MAX_QUEUED) -> None:
        self.max_frame = max_frame
        self.max_queued = max_queued
        self._parts: list[bytes] = []
        self._have: i64 = 0
        self._need: i64 = 8
        self.long: tuple[bytes, bytes] | None = None
        """Head and body of a whole frame that precedes the bytes returned by `gather`. `cut` returns its command unless
        the caller sets this to None."""
        self._failure: FrameError | None = None
        self._out: list[bytes] = []
        self._queued: i64 = 0

    @property
    def queued_bytes(self) -> int:
        """Number of bytes passed to `send` and `send_frame` that `data_to_send` has not returned yet."""
        return int(self._queued)

    @property
    def buffered_bytes(self) -> int:
        """Number of stored bytes of an incomplete frame."""
        return int(self._have)

    @property
    def full(self) -> bool:
        """Whether more than `max_queued` bytes are waiting because the peer sends requests faster than it reads."""
        return self._queued > self.max_queued

    def receive(self, data: bytes) -> list[Command]:
        """Return the commands that are complete with `data`, in order.

        Raises `FrameError`, in this and every later call, if the stream is not valid. `before` of the error contains
        the commands before the invalid frame.
        """
        frames = self.gather(data)
        return self.cut(frames, 0) if frames or self.long is not None else []

    def gather(self, data: bytes) -> bytes:
        """Return the bytes to pass to `cut`, which start with a frame, or b"" until the first frame is complete.

        Pass them to `cut` immediately. `long` is a frame that was received in many pieces and is now complete: it
        precedes these bytes. Raises `FrameError`, like `receive`, after an invalid frame.
        """
        if self._failure is not None:
            raise self._failure
        self._have += len(data)
        if self._have < self._need:  # a long frame arrives in many pieces: join them only once
            last = len(self._parts) - 1
            if last >= 0 and len(data) < SMALL and len(self._parts[last]) < SMALL:
                # a list of pieces of a few bytes would need much more memory than their contents
                self._parts[last] += data
            else:
                self._parts.append(data)
            return b""
        if self._parts:
            self._parts.append(data)
            if self._need > LONG:
                return self._gather_long(self._parts)
            data = b"".join(self._parts)
            self._parts = []
        return data

    def _gather_long(self, parts: list[bytes]) -> bytes:
        """Store the complete long frame, copying its body once, and return the bytes after it."""
        self._parts = []
        body_at = 8 + (i64(read_i32_be(parts[0], 4)) & 0xFFFFFF)
        size: i64 = 0
        taken = 0
        while size < body_at:
            size += len(parts[taken])
            taken += 1
        head = b"".join(parts[:taken])
        surplus = self._have - self._need
        pieces: list[bytes | memoryview] = [memoryview(head)[int(body_at) :], *parts[taken:]]
        last = pieces[len(pieces) - 1]
        kept = len(last) - surplus
        pieces[len(pieces) - 1] = memoryview(last)[: int(kept)]
        self.long = (head[: int(body_at)], b"".join(pieces))
        return bytes(memoryview(last)[int(kept) :])

    def cut(self, data: bytes, at: i64) -> list[Command]:
        """Return the commands in the result of `gather`, starting at the frame at `at`. Raises `FrameError`."""
        commands: list[Command] = []
        try:
            if self.long is not None:
                head, body = self.long
                self.long = None
                commands.append(_command(head[4], head[8:], body))
            used = self._read_frames(data, at, commands)
        except FrameError as error:
            error.before = commands
            self._failure = error
            self._have = 0
            raise
        self._have = len(data) - used
        if self._have > 0:
            self._parts.append(data[int(used) :])
        return commands

    def _read_frames(self, data: bytes, at: i64, commands: list[Command]) -> i64:
        """Append the commands of the complete frames of `data` that start at `at`. Return the end of the last of these
        frames."""
        end: i64 = len(data)
        limit: i64 = self.max_frame
        while end - at >= 4:
            length: i64 = i64(read_i32_be(data, at))
            if length < 4 or length > limit - 4:
                raise FrameError(
                    f"a frame of {int(length)} bytes is outside 4 to {self.max_frame - 4}; is the peer a RocketMQ one?"
                )
            if end - at < 8:
                break
            # Checked before the frame is complete: the first eight bytes show a wrong header length.
            mark: i64 = i64(read_i32_be(data, at + 4))
            kind = int((mark >> 24) & 0xFF)
            header_size: i64 = mark & 0xFFFFFF
            if header_size > length - 4:
                raise FrameError(
                    f"a header of {int(header_size)} bytes in a frame of {int(length)}; close and reconnect"
                )
            if kind != JSON_TYPE and kind != BINARY_TYPE:
                raise FrameError(f"serialize type {kind} is unknown; use 0 (JSON) or 1 (ROCKETMQ)")
            if end - at < 4 + length:
                self._need = 4 + length
                return at
            start = at + 8
            header = data[int(start) : int(start + header_size)]
            body = data[int(start + header_size) : int(at + 4 + length)]
            commands.append(_command(kind, header, body))
            at += 4 + length
        self._need = 4 if end - at < 4 else 8
        return at

    def forget(self) -> None:
        """Release the memory of an incomplete frame, because the connection is being closed."""
        self._parts = []
        self._have = 0

    def receive_eof(self) -> None:
        """Handle a close by the peer. Raises `FrameError` if a frame is incomplete."""
        if self._failure is None and self._have > 0:
            self._failure = FrameError(f"the peer closed {int(self._have)} bytes into a frame; nothing of it was done")
            raise self._failure

    def send(self, command: Command) -> None:
        """Queue a command. Raises `FrameError`, and queues nothing, if its frame exceeds `max_frame`."""
        body = command.body
        size = len(body)
        head = encode_head(command, size)
        if len(head) + size > self.max_frame:
            raise FrameError(f"a frame of {len(head) + size} bytes is above the limit of {self.max_frame}; send less")
        if size == 0:
            self.send_frame(head)
        elif size < JOIN_BELOW:
            self.send_frame(head + body)
        else:
            self.send_frame(head)
            self.send_frame(body)

    def send_frame(self, data: bytes) -> None:
        """Queue an encoded frame, or the next part of one."""
        self._out.append(data)
        self._queued += len(data)

    def data_to_send(self) -> list[bytes]:
        """Remove and return all queued buffers, which must be written in this order."""
        ready = self._out
        self._out = []
        self._queued = 0
        return ready


def begins_whole(data: bytes) -> bool:
    """Return whether the first frame of `data` is complete."""
    size: i64 = len(data)
    return size >= 4 and size - 4 >= i64(read_i32_be(data, 0))


def _command(kind: int, header: bytes, body: bytes) -> Command:
    """Decode a command from a header in JSON or in the binary form. Raises `FrameError`."""
    return decode_json_header(header, body) if kind == JSON_TYPE else decode_binary_header(header, body)
