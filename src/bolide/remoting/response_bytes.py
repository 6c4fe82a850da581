"""The two most frequent responses of a broker, encoded directly without objects.

They equal `SendMessageResponseHeader` and `PullMessageResponseHeader` encoded by `make_response` and `encode`; a test
compares them. Used for every send and every pull.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i16, i32

from bolide.remoting.codes import BINARY_TYPE, FLAG_RESPONSE, JSON_TYPE, PYTHON, VERSION_5_5_0
from bolide.remoting.envelope import JSON_ENCODER

_TAIL: Final = b'"flag":1,"language":"PYTHON","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":513}'


@final
class SendResponses:
    """Encodes a broker's responses to sends, which all contain `region` and `trace_on`."""

    def __init__(self, region: str, trace_on: bool) -> None:
        self._region: bytes = region.encode()
        self._json_region: bytes = JSON_ENCODER.encode(region)
        self._trace: bytes = b"true" if trace_on else b"false"

    def encode(
        self,
        opaque: int,
        msg_id: str,
        *,
        queue_id: int,
        queue_offset: int,
        transaction_id: str = "",
        recall_handle: str = "",
        binary: bool = False,
        code: int = 0,
    ) -> bytes:
        """Return the whole frame of the response to a send.

        `msg_id`: offset message id (of a batch: joined by commas). `queue_offset`: of the first message.
        `transaction_id`: UNIQ_KEY; omitted if "". `recall_handle`: of a timer message; omitted if "". `code`: 0, or 10,
        11, 12, which are successes with incomplete replication or flush.
        """
        if binary:
            w = BytesWriter()
            _entry(w, b"queueId", b"%d" % queue_id)
            _entry(w, b"TRACE_ON", self._trace)
            _entry(w, b"MSG_REGION", self._region)
            _entry(w, b"msgId", msg_id.encode())
            _entry(w, b"queueOffset", b"%d" % queue_offset)
            if transaction_id:
                _entry(w, b"transactionId", transaction_id.encode("utf-8", "replace"))
            if recall_handle:
                _entry(w, b"recallHandle", recall_handle.encode())
            return _binary_frame(opaque, code, "", w, 0)
        rest: bytes = b',"transactionId":%b' % JSON_ENCODER.encode(transaction_id) if transaction_id else b""
        if recall_handle:
            rest += b',"recallHandle":"%b"' % recall_handle.encode()
        header = (
            b'{"code":%d,"extFields":{"queueId":"%d","TRACE_ON":"%b","MSG_REGION":%b,"msgId":"%b","queueOffset":"%d"%b},'
            % (code, queue_id, self._trace, self._json_region, msg_id.encode(), queue_offset, rest)
            + _TAIL % (opaque, b"")
        )
        return _json_frame(header, 0)

    def pieces(self) -> list[bytes]:
        """Return the constant parts of responses to messages stored together, for `broker.send.send_kernel`.

        Six parts of a JSON header, separated by queue id, message id, queue offset, transaction id and opaque. Five of
        a binary header: before the opaque, and before the values of queue id, message id (with its length), queue
        offset and transaction id.
        """
        first, second, third, fourth = BytesWriter(), BytesWriter(), BytesWriter(), BytesWriter()
        _name(first, b"queueId")
        _entry(second, b"TRACE_ON", self._trace)
        _entry(second, b"MSG_REGION", self._region)
        _name(second, b"msgId")
        _name(third, b"queueOffset")
        _name(fourth, b"transactionId")
        before, _, after = (_TAIL % (0, b"")).partition(b'"opaque":0')
        return [
            b'{"code":0,"extFields":{"queueId":"',
            b'","TRACE_ON":"%b","MSG_REGION":%b,"msgId":"' % (self._trace, self._json_region),
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
class PullResponse:
    """The response to a pull, without its body. Every response contains the long fields, because a Java client fails
    without them."""

    def __init__(self, code: int, remark: str, *, next_begin_offset: int, min_offset: int, max_offset: int) -> None:
        self.code: int = code
        self.remark: str = remark
        """Encoded remark; "" for none."""
        self.next_begin_offset: int = next_begin_offset
        self.min_offset: int = min_offset
        self.max_offset: int = max_offset
        self.suggest_which_broker_id: int = 0
        self.topic_sys_flag: int = 0
        self.group_sys_flag: int = 0

    def head(self, opaque: int, body_size: int, binary: bool) -> bytes:
        """The frame, without the `body_size` bytes of whole records that the caller sends after it."""
        if binary:
            w = BytesWriter()
            _entry(w, b"suggestWhichBrokerId", b"%d" % self.suggest_which_broker_id)
            _entry(w, b"nextBeginOffset", b"%d" % self.next_begin_offset)
            _entry(w, b"minOffset", b"%d" % self.min_offset)
            _entry(w, b"maxOffset", b"%d" % self.max_offset)
            _entry(w, b"topicSysFlag", b"%d" % self.topic_sys_flag)
            _entry(w, b"groupSysFlag", b"%d" % self.group_sys_flag)
            return _binary_frame(opaque, self.code, self.remark, w, body_size)
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
            + _TAIL % (opaque, _remark(self.remark))
        )
        return _json_frame(header, body_size)


def _remark(remark: str) -> bytes:
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
