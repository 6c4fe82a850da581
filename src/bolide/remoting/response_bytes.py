"""The two most frequent responses of a broker: to a send and to a pull.

`frame` formats them directly. The result equals that of `encode` for a `Command` with the same fields.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i16, i32

from bolide.remoting.codes import BINARY_TYPE, FLAG_RESPONSE, JSON_TYPE, PYTHON, SUCCESS, VERSION_5_5_0
from bolide.remoting.command import Command, encode
from bolide.remoting.envelope import JSON_ENCODER

Buffer: TypeAlias = bytes | memoryview
"""Data that can be written to a socket."""

_TAIL: Final = b'"flag":1,"language":"PYTHON","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":513}'


@final
class SendResponses:
    """The constant parts of a broker's responses to sends, which all contain `region` and `trace_on`."""

    def __init__(self, region: str, trace_on: bool) -> None:
        self.region: str = region
        self.region_bytes: bytes = region.encode()
        self.json_region: bytes = JSON_ENCODER.encode(region)
        self.trace: bytes = b"true" if trace_on else b"false"

    def pieces(self) -> list[bytes]:
        """Return the constant parts of responses to messages stored together, for `broker.send.send_kernel`.

        Six parts of a JSON header, separated by queue id, message id, queue offset, transaction id and opaque. Five of
        a binary header: before the opaque, and before the values of queue id, message id (with its length), queue
        offset and transaction id.
        """
        first, second, third, fourth = BytesWriter(), BytesWriter(), BytesWriter(), BytesWriter()
        _name(first, b"queueId")
        _entry(second, b"TRACE_ON", self.trace)
        _entry(second, b"MSG_REGION", self.region_bytes)
        _name(second, b"msgId")
        _name(third, b"queueOffset")
        _name(fourth, b"transactionId")
        before, _, after = (_TAIL % (0, b"")).partition(b'"opaque":0')
        return [
            b'{"code":0,"extFields":{"queueId":"',
            b'","TRACE_ON":"%b","MSG_REGION":%b,"msgId":"' % (self.trace, self.json_region),
            b'","queueOffset":"',
            b'","transactionId":"',
            b'"},%b"opaque":' % before,
            after,
            b"\0\0%c%b" % (PYTHON, VERSION_5_5_0.to_bytes(2, "big")),
            first.getvalue(),
            second.getvalue(),
            third.getvalue(),
            fourth.getvalue(),
        ]


@final
class SendResponse:
    """The response to a send whose messages are stored. `code` and `remark` may change until it is encoded.

    `msg_id`: offset message id (of a batch: joined by commas). `queue_offset`: of the first message.
    `transaction_id`: UNIQ_KEY; omitted if "". `recall_handle`: of a timer message; omitted if "".
    """

    def __init__(
        self,
        constants: SendResponses,
        request: Command,
        msg_id: str,
        *,
        queue_id: int,
        queue_offset: int,
        transaction_id: str = "",
        recall_handle: str = "",
    ) -> None:
        self._constants: SendResponses = constants
        self.opaque: int = request.opaque
        self.serialize_type: int = request.serialize_type
        self.code: int = SUCCESS
        self.remark: str | None = None
        self.body: bytes = b""
        self.msg_id: str = msg_id
        self.queue_id: int = queue_id
        self.queue_offset: int = queue_offset
        self.transaction_id: str = transaction_id
        self.recall_handle: str = recall_handle

    def ext(self) -> dict[str, str]:
        """Return the header fields."""
        constants = self._constants
        ext = {"queueId": str(self.queue_id), "TRACE_ON": constants.trace.decode(), "MSG_REGION": constants.region}
        ext["msgId"] = self.msg_id
        ext["queueOffset"] = str(self.queue_offset)
        if self.transaction_id:
            ext["transactionId"] = self.transaction_id
        if self.recall_handle:
            ext["recallHandle"] = self.recall_handle
        return ext

    def frame(self) -> bytes:
        """Return the whole frame."""
        constants = self._constants
        if self.code != SUCCESS:  # rare
            return encode(response_of(self.code, self.opaque, self.serialize_type, self.remark, self.ext()))
        if self.serialize_type == BINARY_TYPE:
            w = BytesWriter()
            _entry(w, b"queueId", b"%d" % self.queue_id)
            _entry(w, b"TRACE_ON", constants.trace)
            _entry(w, b"MSG_REGION", constants.region_bytes)
            _entry(w, b"msgId", self.msg_id.encode())
            _entry(w, b"queueOffset", b"%d" % self.queue_offset)
            if self.transaction_id:
                _entry(w, b"transactionId", self.transaction_id.encode("utf-8", "replace"))
            if self.recall_handle:
                _entry(w, b"recallHandle", self.recall_handle.encode())
            return _binary_frame(self.opaque, SUCCESS, "", w, 0)
        rest: bytes = b',"transactionId":%b' % JSON_ENCODER.encode(self.transaction_id) if self.transaction_id else b""
        if self.recall_handle:
            rest += b',"recallHandle":"%b"' % self.recall_handle.encode()
        header = (
            b'{"code":0,"extFields":{"queueId":"%d","TRACE_ON":"%b","MSG_REGION":%b,"msgId":"%b","queueOffset":"%d"%b},'
            % (self.queue_id, constants.trace, constants.json_region, self.msg_id.encode(), self.queue_offset, rest)
            + _TAIL % (self.opaque, b"")
        )
        return _json_frame(header, 0)


@final
class PullResponse:
    """The response to a pull. Every response contains the long fields, because a Java client fails without them.

    `body`: whole records.
    """

    def __init__(
        self,
        request: Command,
        code: int,
        remark: str | None,
        body: list[Buffer],
        *,
        next_begin_offset: int,
        min_offset: int,
        max_offset: int,
    ) -> None:
        self.opaque: int = request.opaque
        self.serialize_type: int = request.serialize_type
        self.code: int = code
        self.remark: str | None = remark
        self.body: list[Buffer] = body
        self.next_begin_offset: int = next_begin_offset
        self.min_offset: int = min_offset
        self.max_offset: int = max_offset
        self.suggest_which_broker_id: int = 0
        self.topic_sys_flag: int = 0
        self.group_sys_flag: int = 0

    def ext(self) -> dict[str, str]:
        """Return the header fields."""
        return {
            "suggestWhichBrokerId": str(self.suggest_which_broker_id),
            "nextBeginOffset": str(self.next_begin_offset),
            "minOffset": str(self.min_offset),
            "maxOffset": str(self.max_offset),
            "topicSysFlag": str(self.topic_sys_flag),
            "groupSysFlag": str(self.group_sys_flag),
        }

    def frame(self) -> list[Buffer]:
        """Return the frame in pieces: the head, then the body, which is not copied."""
        body_size = 0
        for buffer in self.body:
            body_size += len(buffer)
        if self.serialize_type == BINARY_TYPE:
            w = BytesWriter()
            _entry(w, b"suggestWhichBrokerId", b"%d" % self.suggest_which_broker_id)
            _entry(w, b"nextBeginOffset", b"%d" % self.next_begin_offset)
            _entry(w, b"minOffset", b"%d" % self.min_offset)
            _entry(w, b"maxOffset", b"%d" % self.max_offset)
            _entry(w, b"topicSysFlag", b"%d" % self.topic_sys_flag)
            _entry(w, b"groupSysFlag", b"%d" % self.group_sys_flag)
            return [_binary_frame(self.opaque, self.code, self.remark or "", w, body_size), *self.body]
        header = (
            b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d",'
            b'"maxOffset":"%d","topicSysFlag":"%d","groupSysFlag":"%d"},'
            % (
                self.code,
                self.suggest_which_broker_id,
                self.next_begin_offset,
                self.min_offset,
                self.max_offset,
                self.topic_sys_flag,
                self.group_sys_flag,
            )
            + _TAIL % (self.opaque, _remark(self.remark))
        )
        return [_json_frame(header, body_size), *self.body]


def response_of(
    code: int, opaque: int, serialize_type: int, remark: str | None, ext: dict[str, str] | None = None
) -> Command:
    """Return a response as a command."""
    return Command(code, opaque=opaque, flag=FLAG_RESPONSE, serialize_type=serialize_type, remark=remark, ext=ext)


def _remark(remark: str | None) -> bytes:
    text: bytes = b'"remark":%b,' % JSON_ENCODER.encode(remark) if remark else b""
    return text


def _name(w: BytesWriter, name: bytes) -> None:
    write_i16_be(w, i16(len(name)))
    w.write(name)


def _entry(w: BytesWriter, name: bytes, value: bytes) -> None:
    _name(w, name)
    write_i32_be(w, i32(len(value)))
    w.write(value)


def _json_frame(header: bytes, body_size: int) -> bytes:
    w = BytesWriter()
    size = i32(len(header))
    write_i32_be(w, 4 + size + i32(body_size))
    write_i32_be(w, size | JSON_TYPE << 24)
    w.write(header)
    return w.getvalue()


def _binary_frame(opaque: int, code: int, remark: str, entries: BytesWriter, body_size: int) -> bytes:
    said = remark.encode("utf-8", "replace")
    fields = entries.getvalue()
    size = i32(21 + len(said) + len(fields))
    w = BytesWriter()
    write_i32_be(w, 4 + size + i32(body_size))
    write_i32_be(w, size | BINARY_TYPE << 24)
    write_i16_be(w, i16(code))
    w.append(PYTHON)
    write_i16_be(w, i16(VERSION_5_5_0))
    write_i32_be(w, i32(opaque))
    write_i32_be(w, i32(FLAG_RESPONSE))
    write_i32_be(w, i32(len(said)))
    w.write(said)
    write_i32_be(w, i32(len(fields)))
    w.write(fields)
    return w.getvalue()
