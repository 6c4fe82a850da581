"""TLS of one accepted connection, between its socket and its `ServerConnection`.

Uses memory buffers (`ssl.MemoryBIO`), because the first bytes were read before they were recognized as TLS, and no
event loop's `start_tls` accepts bytes that were already read. The loop's transport below sends all bytes.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from bolide.errors import ProtocolError

HEADER: Final = 5
"""Bytes before each record: its type, a version, and its length in the last two."""
PIECE: Final = 256 * 1024
"""Maximum number of bytes per decryption."""


class TlsRecords:
    """Finds the ends of records in a TLS stream, using the lengths in their headers."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._kept = 0

    def feed(self, data: bytes) -> int:
        """Process the next bytes of the stream. Return the number of received bytes of the last record if it is
        incomplete, else 0."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(HEADER - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                if len(self._head) == HEADER:
                    self._left = int.from_bytes(self._head[3:], "big")
                    self._head = b""
            at += step
            self._kept = self._kept + step if self._left or self._head else 0
        return self._kept


class TlsLayer:
    """Protocol of the loop's transport below, and transport of the connection above. It has the methods of both."""

    def __init__(self, transport: Any, connection: Any, context: ssl.SSLContext) -> None:
        self._below = transport
        self._above = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._records = TlsRecords()
        self._shaken = 0
        """Number of bytes of the incomplete handshake."""
        self._open = False
        self._closed = False

    # ---- called by the loop's transport

    @property
    def open(self) -> bool:
        """Whether the handshake is complete."""
        return self._open

    def connection_made(self, transport: Any) -> None:
        """Never called: the connection was made before TLS was detected."""

    def data_received(self, data: bytes) -> None:
        """Process encrypted bytes of the peer: pass on the plaintext, send handshake responses."""
        if self._closed:
            return
        self._incoming.write(data)
        begun = self._records.feed(data)
        if not self._open:
            self._shaken += len(data)
        try:
            self._shake_hands()
            plain, ended = self._decrypted() if self._open else ([], False)
        except ssl.SSLWantReadError:
            self._send()
            self._above.keeps(self._shaken)
            return
        except ssl.SSLError as error:
            self._send()  # send the alert with the reason to the peer
            self._closed = True
            self._above.refuse(ProtocolError(f"TLS failed: {error.reason or error}"))
            return
        self._send()
        if plain:
            self._above.data_received(plain[0] if len(plain) == 1 else b"".join(plain))
        self._above.keeps(begun)
        if ended:
            self._above.eof_received()
            self.close()

    def eof_received(self) -> bool:
        """Called when the peer has stopped sending."""
        self._above.eof_received()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._closed = True
        self._above.connection_lost(error)

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Resume after the peer has read enough."""
        self._above.resume_writing()

    # ---- called by the connection above

    def write(self, data: bytes) -> None:
        """Encrypt and send. Ignored before the end of the handshake, because no request can have arrived."""
        self.writelines([data])

    def writelines(self, buffers: list[Any]) -> None:
        """Encrypt and send, as one write."""
        if not self._closed and self._open:
            try:
                for data in buffers:
                    self._tls.write(data)
            except ssl.SSLError as error:
                self._closed = True
                self._above.refuse(ProtocolError(f"TLS failed: {error.reason or error}"))
                return
            self._send()

    def close(self) -> None:
        """Send a close_notify alert and queued bytes, then close."""
        if not self._closed:
            self._closed = True
            if self._open:
                try:
                    self._tls.unwrap()
                except ssl.SSLError:
                    pass  # our close_notify is written; do not wait for the peer's close_notify
            self._send()
        self._below.close()

    def abort(self) -> None:
        """Close immediately; queued bytes are lost."""
        self._closed = True
        self._below.abort()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the socket."""
        self._below.resume_reading()

    def set_write_buffer_limits(self, high: int) -> None:
        """Set the high-water mark, in encrypted bytes."""
        self._below.set_write_buffer_limits(high=high)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes that are not sent yet."""
        return int(self._below.get_write_buffer_size())

    # ---- inside

    def _shake_hands(self) -> None:
        if not self._open:
            self._tls.do_handshake()
            self._open = True

    def _decrypted(self) -> tuple[list[bytes], bool]:
        """Return the readable plaintext, and whether the peer sent a close_notify alert."""
        found: list[bytes] = []
        while True:
            try:
                piece = self._tls.read(PIECE)
            except ssl.SSLWantReadError:
                return found, False
            except ssl.SSLZeroReturnError:
                return found, True
            if not piece:
                return found, True
            found.append(piece)

    def _send(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())
