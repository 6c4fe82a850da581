"""The handle by which a producer recalls a delayed message: RocketMQ's RecallMessageHandle, version 1.

URL-safe Base64 of five words separated by spaces: ``v1 topic brokerName deliverMs uniqKey``.
"""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple

from bolide.remoting.errors import BodyError

_URL_SAFE: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_WORDS: Final = 5


class RecallHandle(NamedTuple):
    """The contents of a handle; `deliver_at` is a decimal text of ms since the epoch."""

    topic: str
    broker_name: str
    deliver_at: str
    unique_key: str


def encode_recall_handle(topic: str, broker_name: str, deliver_at: int, unique_key: str) -> str:
    """Return the handle of a message that is pending on this broker."""
    return base64.urlsafe_b64encode(f"v1 {topic} {broker_name} {deliver_at} {unique_key}".encode()).decode()


def decode_recall_handle(handle: str) -> RecallHandle:
    """Decode a handle. Raises `BodyError` with Java's text if it is invalid."""
    if handle and _URL_SAFE.fullmatch(handle):
        bare = handle.rstrip("=")
        try:
            words = base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "replace").split(" ")
        except ValueError:
            words = []
        while words and not words[-1]:
            del words[-1]  # like Java's split
        if len(words) >= _WORDS and words[0] == "v1":
            return RecallHandle(*words[1:_WORDS])
    raise BodyError("recall handle is invalid")
