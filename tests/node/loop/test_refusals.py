"""Refusals leave one line each; what a peer sent cannot forge a line, and a flood is counted."""

import logging

import pytest

from bolide.node.loop.refusals import LINES_A_SECOND, LONGEST_REMARK, Refusals, one_line
from bolide.remoting import codes
from bolide.remoting.command import make_request, make_response

LOG = logging.getLogger("test.refusals")


def note(refusals: Refusals, now: int, remark: str = "no such topic") -> None:
    request = make_request(codes.SEND_MESSAGE_V2, 1, {})
    refusals.note("10.0.0.1:5", request, make_response(request, codes.TOPIC_NOT_EXIST, remark), now)


def test_a_line_names_peer_request_code_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    note(Refusals(LOG), 1000)
    assert caplog.messages == ["rejected request SEND_MESSAGE_V2 of 10.0.0.1:5 with TOPIC_NOT_EXIST: no such topic"]


def test_a_flood_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    refusals = Refusals(LOG)
    for _ in range(LINES_A_SECOND + 7):
        note(refusals, 1000)
    assert len(caplog.messages) == LINES_A_SECOND
    note(refusals, 2000)
    assert caplog.messages[LINES_A_SECOND] == "rejected 7 more requests"
    assert len(caplog.messages) == LINES_A_SECOND + 2


def test_a_remark_stays_one_short_line() -> None:
    assert one_line("a\nERROR forged\x1b[2J") == "a?ERROR forged?[2J"
    assert len(one_line("x" * 10_000)) == LONGEST_REMARK + 3
