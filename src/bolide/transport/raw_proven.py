"""Connections without frames whose peer must prove that it has a secret, before the owner receives the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bolide.access.proven_stream import (
    HELLO,
    NONCE_BYTES,
    SET_AT_MASTER,
    MasterStream,
    NotProven,
    ProvenStream,
    SlaveStream,
)
from bolide.access.users import Credentials, Users
from bolide.transport.raw_connection import RawConnection, peer_of
from bolide.world.contract import World

MOST_PENDING: Final = 64
"""Maximum number of unauthenticated connections. A new connection closes the oldest, so idle connections cannot block a
slave."""

PROOF_S: Final = 3.0


class Proving:
    """A layer between a socket and the connection above, for which it is the transport. It has the methods of
    asyncio.Protocol. `done(why)` is called with "" once the peer has proved itself, or with the reason of a failure."""

    def __init__(
        self,
        stream: ProvenStream,
        made: Callable[[], RawConnection],
        done: Callable[[str], None],
        *,
        left_open: bool = False,
    ) -> None:
        """With `left_open`, the caller closes a connection whose proof fails; its further bytes are not read."""
        self._left_open = left_open
        self._stream = stream
        self._made = made
        self._done = done
        self._pending = True
        self._below: Any = None
        self.above: RawConnection | None = None
        """The connection that carries the peer's data, or None until the peer has proved itself."""

    # ---- called by the loop

    def connection_made(self, transport: Any) -> None:
        """Called by the loop when the socket is connected."""
        self._below = transport
        self._send_handshake()

    def data_received(self, data: bytes) -> None:
        """Called by the loop with bytes from the peer."""
        try:
            data = self._stream.receive(data)
        except NotProven as error:
            self._fail(str(error))
            return
        self._send_handshake()
        if self._stream.proven and self.above is None and self._pending:
            self.above = self._made()
            self.above.connection_made(self)
            self._end("")
        if data and self.above is not None:
            self.above.data_received(data)

    def eof_received(self) -> bool:
        """Called by the loop at the end of the peer's stream; closes the connection."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop when the socket is closed."""
        self._end("it closed the connection before it proved that it belongs to the cluster")
        if self.above is not None:
            self.above.connection_lost(error)

    def pause_writing(self) -> None:
        """Called by the loop when the unsent bytes exceed the high-water mark."""
        if self.above is not None:
            self.above.pause_writing()

    def resume_writing(self) -> None:
        """Called by the loop when few bytes are unsent."""
        if self.above is not None:
            self.above.resume_writing()

    # ---- called by the connection above

    def write(self, data: bytes) -> None:
        """Sign these bytes and send them."""
        self._below.write(self._stream.seal(data))

    def abort(self) -> None:
        """Close without sending queued bytes."""
        self._below.abort()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._below.resume_reading()

    def set_write_buffer_limits(self, high: int) -> None:
        """Set the high-water mark of unsent bytes."""
        self._below.set_write_buffer_limits(high)

    def get_extra_info(self, name: str) -> Any:
        """Return information about the socket."""
        return self._below.get_extra_info(name)

    # ---- inside

    def _fail(self, why: str) -> None:
        self._pending = False
        self._done(why)
        if self._left_open and self.above is None:
            self._below.pause_reading()
        else:
            self.abort()

    def _end(self, why: str) -> None:
        if self._pending:
            self._pending = False
            self._done(why)

    def _send_handshake(self) -> None:
        data = self._stream.take()
        if data:
            self._below.write(data)


class ProvenPort:
    """One port. Without `required`, it also serves peers that do not offer a proof. `refused(peer, why)` is called for
    each peer that is rejected."""

    def __init__(
        self,
        users: Users,
        set_name: str,
        world: World,
        made: Callable[[], RawConnection],
        refused: Callable[[str, str], None],
        *,
        required: bool,
        seconds: float,
    ) -> None:
        self.users = users
        self.set_name = set_name
        """Name of the broker set, part of the proof."""
        self.world = world
        self.made = made
        self.refused = refused
        self.required = required
        self.seconds = seconds
        """Time in seconds within which a peer must prove itself."""
        self.pending: dict[Entering, None] = {}

    def accepted(self) -> Entering:
        """Return the protocol for a new connection."""
        return Entering(self)

    def stop(self) -> None:
        """Close the connections without proof."""
        for one in list(self.pending):
            one.close()

    def secret_of(self, name: str) -> str | None:
        """Return the secret of these credentials, or None if they are unknown."""
        user = self.users.get(name)
        return None if user is None else user.password


class Entering:
    """An accepted connection until its peer has proved itself. If the proof fails, it is closed only when its time has
    expired, which slows further attempts."""

    def __init__(self, port: ProvenPort) -> None:
        self._port = port
        self._below: Any = None
        self._failed = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Called by the loop for a new connection."""
        port = self._port
        self._below = transport
        if len(port.pending) >= MOST_PENDING:
            next(iter(port.pending)).close(f"{MOST_PENDING} newer connections have not proved anything, either")
        port.pending[self] = None
        self._timer = asyncio.get_running_loop().call_later(port.seconds, self._late)

    def data_received(self, data: bytes) -> None:
        """Choose the protocol by the first byte of the peer."""
        port = self._port
        if data[0] != HELLO[0] and not port.required:
            self._leave()
            connection = port.made()
            self._below.set_protocol(connection)
            connection.connection_made(self._below)
            connection.data_received(data)
            return
        stream = MasterStream(port.secret_of, port.set_name, nonce(port.world))
        proving = Proving(stream, port.made, self._done, left_open=True)
        self._below.set_protocol(proving)
        proving.connection_made(self._below)
        proving.data_received(data)

    def eof_received(self) -> bool:
        """Called by the loop at the end of the peer's stream; closes the connection."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the loop when the socket is closed."""
        self._leave()

    def close(self, why: str = "") -> None:
        """Close the connection. Reports the reason, unless a failure was already reported."""
        if why and not self._failed:
            self._refused(why)
        self._leave()
        self._below.abort()

    def _leave(self) -> None:
        self._port.pending.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _done(self, why: str) -> None:
        if why:
            self._refused(why)
        else:
            self._leave()

    def _refused(self, why: str) -> None:
        self._failed = True
        self._port.refused(peer_of(self._below), why)

    def _late(self) -> None:
        self.close(f"it has not proved that it belongs to the cluster within {self._port.seconds:.0f} s")


async def connect_proven(
    world: World,
    made: Callable[[], RawConnection],
    host: str,
    port: int,
    credentials: Credentials,
    set_name: str,
    failed: Callable[[str], None],
) -> RawConnection:
    """Connect to a `ProvenPort` of the same broker set, and return the connection once both sides have proved
    themselves. `failed(why)` is called if the peer violates the protocol later. Raises `OSError` if the connection
    fails, and `NotProven` if the proof fails or takes longer than `PROOF_S`."""
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def done(why: str) -> None:
        if not outcome.done():
            outcome.set_result(why)
        elif why:
            failed(why)

    stream = SlaveStream(credentials, set_name, nonce(world))
    proving = await world.connect(lambda: Proving(stream, made, done), host, port, None)
    try:
        async with asyncio.timeout(PROOF_S):
            why = await outcome
        if why or proving.above is None:
            raise NotProven(why)
        return proving.above
    except TimeoutError:
        proving.abort()
        raise NotProven(
            f"it does not prove within {PROOF_S:.0f} s that it belongs to the cluster: {SET_AT_MASTER}"
        ) from None
    except BaseException:
        proving.abort()
        raise


def nonce(world: World) -> bytes:
    """Return a random number for one connection."""
    return world.random.getrandbits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES, "big")
