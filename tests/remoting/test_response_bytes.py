"""The two responses formatted as bytes say what the objects would say."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers import Header
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.remoting.headers.send import SendMessageResponseHeader
from bolide.remoting.response_bytes import PullResponse, SendResponses


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
def test_send(kind: int, transaction: str, code: int) -> None:
    header = SendMessageResponseHeader(
        msg_id="7F" * 16, queue_id=3, queue_offset=2**40, transaction_id=transaction or None
    )
    frame = SendResponses("Région", False).encode(
        -7,
        "7F" * 16,
        queue_id=3,
        queue_offset=2**40,
        transaction_id=transaction,
        binary=kind == codes.BINARY_TYPE,
        code=code,
    )
    same(frame, code, None, header, {"MSG_REGION": "Région", "TRACE_ON": "false"}, kind, b"")


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
    response = PullResponse(code, remark or "", next_begin_offset=5, min_offset=0, max_offset=2**40)
    response.suggest_which_broker_id = 1
    response.topic_sys_flag = 3
    response.group_sys_flag = 2
    head = response.head(-7, len(body), kind == codes.BINARY_TYPE)
    same(head + body, code, remark, header, {}, kind, body)
