"""Messages of every kind are encoded for remoting connections with the code that they have then."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.codec import REMOTING, EncodedResponses, Outgoing
from bolide.remoting.command import Command, encode, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.remoting.response_bytes import PullResponse, SendResponse, SendResponses

LONG = "k" * 40_000
REQUEST = make_request(310, 7)


def sent(message: Outgoing) -> list[Command]:
    """The commands that the peer receives."""
    return FramedConnection().receive(b"".join(REMOTING.encode(message)))


def send_response() -> SendResponse:
    return SendResponse(SendResponses("r", True), REQUEST, "ID", queue_id=1, queue_offset=2)


def pull_response() -> PullResponse:
    return PullResponse(REQUEST, 0, None, [b"records"], next_begin_offset=1, min_offset=0, max_offset=1)


def command() -> Command:
    return make_response(REQUEST, 0, None, {"queueId": "1"})


@pytest.mark.parametrize("message", [send_response(), pull_response(), command()], ids=["send", "pull", "other"])
def test_changed_code_and_remark_are_encoded(message: Outgoing) -> None:
    (before,) = sent(message)
    message.code, message.remark = codes.SERVICE_NOT_AVAILABLE, "full"
    (after,) = sent(message)
    assert (before.code, before.remark) == (0, None)
    assert (after.code, after.remark) == (codes.SERVICE_NOT_AVAILABLE, "full")
    assert (after.opaque, after.ext(), after.body) == (before.opaque, before.ext(), before.body)


def test_encoded_responses_are_sent_unchanged_or_all_with_another_code() -> None:
    frames = b"".join(encode(make_response(make_request(310, opaque), 0, None, {"queueId": "1"})) for opaque in (1, 2))
    message = EncodedResponses(frames)
    (piece,) = REMOTING.encode(message)
    assert piece is frames
    message.code, message.remark = 14, "full"
    assert [(each.opaque, each.code, each.remark, each.ext()) for each in sent(message)] == [
        (1, 14, "full", {"queueId": "1"}),
        (2, 14, "full", {"queueId": "1"}),
    ]


def test_response_that_cannot_be_encoded_is_an_error_and_such_a_request_is_not_sent() -> None:
    request = make_request(11, 9, serialize_type=codes.BINARY_TYPE)
    (answer,) = sent(make_response(request, 0, None, {LONG: "v"}))
    assert (answer.code, answer.opaque, answer.is_response) == (codes.SYSTEM_ERROR, 9, True)
    assert answer.serialize_type == codes.BINARY_TYPE
    assert answer.remark is not None and answer.remark.startswith("FrameError: a field name of 40000 bytes")
    odd = send_response()
    odd.transaction_id = "\ud800"
    assert [(each.code, each.opaque) for each in sent(odd)] == [(codes.SYSTEM_ERROR, 7)], "the turn goes on"
    with pytest.raises(FrameError):
        REMOTING.encode(make_request(40, 1, {LONG: "v"}, serialize_type=codes.BINARY_TYPE))
