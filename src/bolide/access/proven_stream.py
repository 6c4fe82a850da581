"""Proves between slave and master that both know one secret, and signs all bytes that they send to each other.

The port of the log uses it with `clusterAuthenticationEnabled`. The slave sends `HELLO`, a random number and the name
of its credentials; the master responds with `HELLO` and a random number. Both sides derive a key per direction from
these bytes, the name of their broker set and the secret. So the secret is never sent, a recorded connection cannot be
replayed, and a slave that is led to the master of another set with the same credentials does not replicate from it. All
later bytes are in frames: length, data, and an HMAC over the number, length and data of the frame. The first frame of
each side is empty. The master sends its first frame after it has received the slave's, and neither side accepts data
before it has received the first frame of the other side. The stream is not encrypted.
"""

from __future__ import annotations

import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from bolide.access.users import MOST_NAME, Credentials
from bolide.errors import BolideError

_MAGIC: Final = b"\xffBOLIDE"
HELLO: Final = _MAGIC + b"\x02"
"""First bytes of each side, with the version of the proof: version 1 did not contain the set. No report or handshake of
RocketMQ's slaves starts with the byte 0xFF."""
NONCE_BYTES: Final = 32
TAG_BYTES: Final = 16
MOST_FRAME: Final = 1024 * 1024
"""Maximum size of the data in one frame, in bytes."""
SET_AT_MASTER: Final = (
    "set the same innerClientAuthenticationCredentials, brokerClusterName and brokerName there; masters of RocketMQ "
    "cannot, they need haTlsEnable and a tunnel"
)
_SET_AT_SLAVE: Final = (
    "set clusterAuthenticationEnabled and innerClientAuthenticationCredentials there; slaves of RocketMQ cannot, they "
    "need haTlsEnable and a tunnel"
)
MOST_NAME_BYTES: Final = 4 * MOST_NAME
_LENGTH: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">QI")
_NAME: Final = struct.Struct(">H")


class NotProven(BolideError):
    """The peer does not know the secret, or its bytes were changed on the way."""


class _Seal:
    """Signs, or checks, the frames of one direction."""

    def __init__(self, secret: str, direction: bytes, transcript: bytes) -> None:
        key = hmac.digest(secret.encode("utf-8", "replace"), direction + transcript, "sha256")
        self._keyed = hmac.new(key, digestmod="sha256")
        self._count = 0

    def tag(self, data: bytes) -> bytes:
        """Return the signature of the next frame, and count the frame."""
        keyed = self._keyed.copy()
        keyed.update(_COUNT.pack(self._count, len(data)))
        keyed.update(data)
        self._count += 1
        return keyed.digest()[:TAG_BYTES]


class ProvenStream(ABC):
    """One side of a connection: verifies the peer's bytes and returns its data. See `SlaveStream`, `MasterStream`."""

    def __init__(self, set_name: str) -> None:
        self._set_name = set_name.encode("utf-8", "replace")
        self._rest = bytearray()
        self._incoming: _Seal | None = None
        self._outgoing: _Seal | None = None
        self._to_send: list[bytes] = []
        self.proven = False
        """Whether the peer has proved that it knows the secret."""

    def receive(self, data: bytes) -> bytes:
        """Return the data in the frames that `data` completes. Raises `NotProven`."""
        self._rest += data
        if self._incoming is None:
            self._agree()
        found: list[bytes] = []
        while self._incoming is not None and len(self._rest) >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(self._rest)[0]
            end = _LENGTH.size + size
            if size > (MOST_FRAME if self.proven else 0):
                raise NotProven("it sends a frame that is too long, so it does not know the secret")
            if len(self._rest) < end + TAG_BYTES:
                break
            frame, tag = bytes(self._rest[_LENGTH.size : end]), bytes(self._rest[end : end + TAG_BYTES])
            if not hmac.compare_digest(self._incoming.tag(frame), tag):
                raise NotProven(
                    "its signature is wrong: its secret, brokerClusterName or brokerName differs, or its bytes were "
                    "changed on the way"
                    if not self.proven
                    else "its bytes were changed on the way"
                )
            del self._rest[: end + TAG_BYTES]
            if not self.proven:
                self.proven = True
                self._on_proven()
            found.append(frame)
        return b"".join(found)

    def seal(self, data: bytes) -> bytes:
        """Return the frames that contain `data`. Call it only after the peer is proven."""
        parts: list[bytes] = []
        for at in range(0, len(data), MOST_FRAME):
            self._frame(data[at : at + MOST_FRAME] if len(data) > MOST_FRAME else data, parts)
        return b"".join(parts)

    def take(self) -> bytes:
        """Remove and return the pending bytes of the handshake."""
        taken, self._to_send = b"".join(self._to_send), []
        return taken

    def _frame(self, data: bytes, parts: list[bytes]) -> None:
        assert self._outgoing is not None
        parts += (_LENGTH.pack(len(data)), data, self._outgoing.tag(data))

    def _keys(self, secret: str, transcript: bytes) -> tuple[_Seal, _Seal]:
        """Return the seals for the frames of the slave and of the master. `transcript`: first bytes of both sides."""
        transcript += self._set_name
        return _Seal(secret, b"bolide log, slave", transcript), _Seal(secret, b"bolide log, master", transcript)

    def _check_begin(self, advice: str) -> None:
        """Raise `NotProven` if the peer's first bytes are not `HELLO`."""
        begin = bytes(self._rest[: len(HELLO)])
        if HELLO.startswith(begin):
            return
        if begin[:-1] == _MAGIC:
            raise NotProven(
                f"it has version {begin[-1]} of the proof, and this broker version {HELLO[-1]}: update the older one"
            )
        raise NotProven(f"it does not prove that it belongs to the cluster: {advice}")

    @abstractmethod
    def _agree(self) -> None:
        """Create the seals if the first bytes of the peer are complete. Raises `NotProven`."""

    def _on_proven(self) -> None:  # noqa: B027  # a slave has nothing to do
        """Called when the peer has proved that it knows the secret."""


class SlaveStream(ProvenStream):
    """The side that connects, with its credentials, the name of its broker set, and a random number of 32 bytes."""

    def __init__(self, credentials: Credentials, set_name: str, nonce: bytes) -> None:
        super().__init__(set_name)
        name = credentials.name.encode("utf-8", "replace")
        self._secret = credentials.secret
        self._hello = HELLO + nonce + _NAME.pack(len(name)) + name
        self._to_send.append(self._hello)

    def _agree(self) -> None:
        size = len(HELLO) + NONCE_BYTES
        self._check_begin(SET_AT_MASTER)
        if len(self._rest) >= size:
            answer = bytes(self._rest[:size])
            del self._rest[:size]
            self._outgoing, self._incoming = self._keys(self._secret, self._hello + answer)
            self._frame(b"", self._to_send)


class MasterStream(ProvenStream):
    """The side that accepts. `find(name)` returns the secret of the credentials with this name, or None if unknown.
    `set_name`: name of its broker set."""

    def __init__(self, find: Callable[[str], str | None], set_name: str, nonce: bytes) -> None:
        super().__init__(set_name)
        self._find = find
        self._nonce = nonce

    def _agree(self) -> None:
        at = len(HELLO) + NONCE_BYTES
        self._check_begin(_SET_AT_SLAVE)
        if len(self._rest) < at + _NAME.size:
            return
        size: int = _NAME.unpack_from(self._rest, at)[0]
        end = at + _NAME.size + size
        if size > MOST_NAME_BYTES:
            raise NotProven("the name of its credentials is too long")
        if len(self._rest) < end:
            return
        hello = bytes(self._rest[:end])
        del self._rest[:end]
        name = hello[at + _NAME.size :].decode("utf-8", "replace")
        secret = self._find(name)
        if secret is None:
            raise NotProven(f"its credentials {name!r} are unknown here, see innerClientAuthenticationCredentials")
        answer = HELLO + self._nonce
        self._incoming, self._outgoing = self._keys(secret, hello + answer)
        self._to_send.append(answer)

    def _on_proven(self) -> None:
        self._frame(b"", self._to_send)
