"""A master's side in the auto-switch mode (docs/protocol/ha.md 6)."""

from __future__ import annotations

import pytest

from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.pacing import Pace
from bolide.replication.switch_frames import (
    Hello,
    encode_answer,
    encode_compare,
    encode_header,
    encode_hello,
    encode_named,
    encode_report,
)
from bolide.replication.switch_master import SwitchMaster

FILE = 1000
SECOND = Hello(2)
ONE = Epochs([Epoch(1, 0)])
TWO = Epochs([Epoch(1, 0), Epoch(2, 2142)])
THREE = Epochs([Epoch(1, 0), Epoch(2, 2142), Epoch(3, 2856)])


def master(end: int, epochs: Epochs, hello: Hello = SECOND, begin: int = 0, **pace: int) -> SwitchMaster:
    made = SwitchMaster(FILE, Pace(**pace), 0)
    assert made.answer(epochs, end, 0) == b""
    assert not made.received(encode_hello(hello), epochs, begin, 0)
    assert made.answer(epochs, end, 0) == encode_answer(epochs, end)
    assert made.answer(epochs, end, 0) == b"", "once"
    return made


def test_a_body_crosses_neither_the_end_of_a_file_nor_the_start_of_an_epoch() -> None:
    made = master(3000, THREE)
    made.received(encode_report(1500), THREE, 0, 0)
    sent = []
    while size := made.wanted(THREE, 3000, 0):
        header = made.transfer(THREE, size, 2900, 0)
        epoch = THREE.covering(made.next_offset - size)
        assert epoch is not None
        assert header == encode_header(made.next_offset - size, size, epoch, 2900)
        sent.append(made.next_offset)
    assert sent == [2000, 2142, 2856, 3000]


@pytest.mark.parametrize(
    ("hello", "begin", "start"), [(Hello(2), 0, 0), (Hello(2), 1000, 1000), (Hello(2, True), 0, 2000)]
)
def test_start_offset_of_an_empty_slave(hello: Hello, begin: int, start: int) -> None:
    made = master(2856, TWO, hello, begin)
    made.received(encode_report(0), TWO, begin, 0)
    assert made.next_offset == start


@pytest.mark.parametrize(
    ("report", "epochs", "begin", "text"),
    [
        (2857, THREE, 0, "received that this log ends at 2856"),
        (999, THREE, 1000, "this log starts at 1000"),
        (2141, Epochs([Epoch(2, 2142)]), 0, "older than its first epoch"),
    ],
)
def test_unfollowable_slave_is_rejected(report: int, epochs: Epochs, begin: int, text: str) -> None:
    made = master(2856, epochs, begin=begin)
    with pytest.raises(NotReplicated, match=text):
        made.received(encode_report(report), epochs, begin, 0)


def test_a_report_before_the_answer_or_beyond_what_was_sent_is_refused() -> None:
    early = SwitchMaster(FILE, Pace(), 0)
    with pytest.raises(NotReplicated, match="before the handshake was complete"):
        early.received(encode_hello(Hello(2)) + encode_report(0), ONE, 0, 0)
    made = master(100, ONE)
    assert made.received(encode_report(50), ONE, 0, 0)
    with pytest.raises(NotReplicated, match="was sent nothing beyond 50"):
        made.received(encode_report(51), ONE, 0, 0)


def test_name_of_the_set_is_sent_to_slaves_that_request_it() -> None:
    for hello, named in ((Hello(2, wants_name=True), encode_named("c#b")), (Hello(2, wants_held=True), b"")):
        made = SwitchMaster(FILE, Pace(), 0, "c#b")
        made.received(encode_hello(hello), ONE, 0, 0)
        assert made.answer(ONE, 100, 0) == named + encode_answer(ONE, 100)


def test_request_for_bytes_to_compare_acknowledges_nothing() -> None:
    made = master(3000, ONE)
    assert made.received(encode_compare(1000), ONE, 0, 0)
    assert (made.acked, made.next_offset) == (-1, 1000)
    assert made.wanted(ONE, 3000, 0) == 1000
    made.transfer(ONE, 1000, 0, 0)
    assert made.received(encode_compare(1000), ONE, 0, 0)
    assert made.acked == -1
    assert made.received(encode_report(2000), ONE, 0, 0)
    assert made.acked == 2000


def test_heartbeats_carry_the_epoch_and_what_is_confirmed() -> None:
    made = master(2856, THREE)
    assert made.heartbeat(THREE, 0, 10**6) == b"", "not before the first report"
    made.received(encode_report(2856), THREE, 0, 100)
    assert made.heartbeat(THREE, 2856, 5000) == b""
    assert made.heartbeat(THREE, 2856, 5001) == encode_header(2856, 0, Epoch(3, 2856), 2856)
    assert made.silent(20_101)
    assert not made.silent(20_100)


def test_a_second_has_its_bytes() -> None:
    made = master(3000, ONE, most_in_second=300)
    made.received(encode_report(1), ONE, 0, 0)
    made.transfer(ONE, made.wanted(ONE, 3000, 500), 0, 500)
    assert made.next_offset == 301
    assert made.wanted(ONE, 3000, 999) == 0
    assert made.limited_until(999) == 1000
    assert made.wanted(ONE, 3000, 1000) == 300
