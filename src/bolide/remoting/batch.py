"""The body of a batch: the concatenated messages of one send (MessageDecoder.java, encodeMessages).

Each message is ``int32 size | int32 magic | int32 CRC | int32 flag | int32 body length | body | int16 properties length
| properties``. Magic and CRC are written as 0 and ignored; the broker computes them. The size includes itself.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from bolide.layout.limits import MAX_PROPERTIES_LENGTH
from bolide.remoting.errors import BodyError

ELEMENT_FIXED: Final = 22  # bytes of an element with neither body nor properties


@final
class BatchMessage:
    """One message of a batch. `flag` is the application's int32, `properties` the encoded property text in UTF-8."""

    def __init__(self, flag: int, body: bytes, properties: bytes) -> None:
        self.flag = flag
        self.body = body
        self.properties = properties


def encode_batch(messages: list[BatchMessage]) -> bytes:
    """Return the body of a batch. Raises `BodyError`, which names the message, for properties of more than 32,767
    bytes."""
    w = BytesWriter()
    for number, message in enumerate(messages):
        body = message.body
        properties = message.properties
        if len(properties) > MAX_PROPERTIES_LENGTH:
            raise BodyError(
                f"message {number} of the batch has {len(properties)} bytes of properties; at most "
                f"{MAX_PROPERTIES_LENGTH} are allowed"
            )
        write_i32_be(w, i32(ELEMENT_FIXED + len(body) + len(properties)))
        write_i32_be(w, 0)
        write_i32_be(w, 0)
        write_i32_be(w, i32(message.flag))
        write_i32_be(w, i32(len(body)))
        w.write(body)
        write_i16_be(w, i16(len(properties)))
        w.write(properties)
    return w.getvalue()


def decode_batch(data: bytes, most: int = 1 << 31) -> list[BatchMessage]:
    """Decode the messages of a batch body. Raises `BodyError` if a length is invalid, because later lengths cannot be
    trusted then, or if there are more than `most` messages."""
    messages: list[BatchMessage] = []
    end: i64 = len(data)
    at: i64 = 0
    while at < end:
        if end - at < ELEMENT_FIXED:
            raise _torn(len(messages), int(at))
        size = i64(read_i32_be(data, at))
        body_size = i64(read_i32_be(data, at + 16))
        if size < ELEMENT_FIXED or size > end - at or body_size < 0 or body_size > size - ELEMENT_FIXED:
            raise _torn(len(messages), int(at))
        if len(messages) >= most:
            raise BodyError(f"the batch has more than maxBatchMessages = {most} messages: split it")
        behind = at + 20 + body_size
        properties_size = i64(read_i16_be(data, behind))
        if properties_size < 0 or properties_size != size - ELEMENT_FIXED - body_size:
            raise _torn(len(messages), int(at))
        messages.append(
            BatchMessage(
                int(read_i32_be(data, at + 12)),
                data[int(at + 20) : int(behind)],
                data[int(behind + 2) : int(at + size)],
            )
        )
        at += size
    return messages


def _torn(number: int, at: int) -> BodyError:
    return BodyError(
        f"message {number} of the batch, at byte {at}, has lengths that do not fit; send the batch again whole"
    )
