"""Extension field of Bolide in a pull: the maximum size of a response with many messages.

A broker limits the messages in each response (RocketMQ's defaults: 32 from memory, 8 from disk). A reader of millions
of messages then spends most of its time on requests. With this field Bolide's broker applies `bulkPullCount` and
`bulkPullBytes` instead, and does not exceed the number in the field, except with a single message. RocketMQ's brokers
ignore it.
"""

from __future__ import annotations

from typing import Final

from bolide.remoting.command import Command
from bolide.remoting.headers.decode import java_int

SMALL_PULL: Final = 32
"""Default maximum number of messages in the response to a pull without the field."""
BULK_BYTES: Final = 1024 * 1024
"""The usual maximum size in bytes; several responses may be in flight."""
_KEY: Final = "bolideBulkBytes"
_QUOTED: Final = b'"bolideBulkBytes"'


def bulk_ext(most: int = BULK_BYTES) -> dict[str, str]:
    """Return the field to send. `most` is the maximum size of the records in the response, in bytes."""
    return {_KEY: str(most)}


def bulk_bytes(pull: Command) -> int:
    """Return the maximum size of the response to a bulk pull in bytes.

    It is 0 for an ordinary pull, and if the field is not a positive int32.
    """
    raw = pull.raw_ext
    if raw and _QUOTED not in raw:
        return 0  # most pulls: their fields are not parsed for this
    return max(java_int(pull.ext().get(_KEY, ""), 31) or 0, 0)
