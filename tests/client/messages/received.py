"""A message as a consumer receives it."""

from __future__ import annotations

from librt.strings import BytesWriter

from bolide.client import ReceivedMessage
from bolide.layout.record import decode_record
from tests.layout.records import put_record


def a_message() -> ReceivedMessage:
    """Return one of topic T."""
    w = BytesWriter()
    put_record(w, "T", b"body", b"")
    return ReceivedMessage(decode_record(w.getvalue(), 0), "b")
