"""The responses formatted directly equal the same responses encoded from their header objects."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers import Header
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.remoting.headers.send import SendMessageResponseHeader
from bolide.remoting.response_bytes import Buffer, PullResponse, SendResponse, SendResponses


def same(
    frame: bytes, code: int, remark: str | None, header: Header, extra: dict[str, str], kind: int, body: bytes
) -> None:
    request = make_request(310, -7, serialize_type=kind)
    expected = parsed(encode(make_response(request, code, remark, header.to_ext() | extra, body)))
    ours = parsed(frame)
    for name in ("code", "opaque", "flag", "language", "version", "remark", "body", "serialize_type"):
        assert getattr(ours, name) == getattr(expected, name), name
    assert ours.ext() == expected.ext()


def parsed(frame: bytes) -> Command:
    (command,) = FramedConnection().receive(frame)
    return command


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize("transaction", ["", "7F0000", 'quoted " \\ 中\n'])
@pytest.mark.parametrize("code", [0, 10, 11])
@pytest.mark.parametrize("handle", ["", "djEgVA=="])
def test_send(kind: int, transaction: str, code: int, handle: str) -> None:
    header = SendMessageResponseHeader(msg_id="7F" * 16, queue_id=3, queue_offset=2**40)
    header.transaction_id, header.recall_handle = transaction or None, handle or None
    response = SendResponse(
        SendResponses("Région", False),
        make_request(310, -7, serialize_type=kind),
        "7F" * 16,
        queue_id=3,
        queue_offset=2**40,
        transaction_id=transaction,
        recall_handle=handle,
    )
    response.code, response.remark = code, "late" if code else None
    extra = {"MSG_REGION": "Région", "TRACE_ON": "false"}
    same(response.frame(), code, response.remark, header, extra, kind, b"")
    assert response.ext() == parsed(response.frame()).ext()


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
@pytest.mark.parametrize(("code", "remark", "body"), [(0, 'say "é"', b"records"), (19, None, b"")])
def test_pull(kind: int, code: int, remark: str | None, body: bytes) -> None:
    header = PullMessageResponseHeader(
        suggest_which_broker_id=1,
        next_begin_offset=5,
        min_offset=0,
        max_offset=2**40,
        topic_sys_flag=3,
        group_sys_flag=2,
    )
    request = make_request(11, -7, serialize_type=kind)
    pieces: list[Buffer] = [body[:2], memoryview(body)[2:]]
    response = PullResponse(request, code, remark, pieces, next_begin_offset=5, min_offset=0, max_offset=2**40)
    response.suggest_which_broker_id = 1
    response.topic_sys_flag = 3
    response.group_sys_flag = 2
    frame = response.frame()
    assert frame[1] is pieces[0] and frame[2] is pieces[1], "the body is not copied"
    same(b"".join(frame), code, remark, header, {}, kind, body)
    assert response.ext() == parsed(b"".join(frame)).ext()
