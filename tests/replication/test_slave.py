"""A slave's session: what it appends, what it reports, and whose log it does not follow."""

from __future__ import annotations

import random

import pytest

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import encode_header, encode_report
from bolide.replication.pacing import Pace
from bolide.replication.slave import SlaveSession, compare_from

FILE = 1000
LOG = random.Random(1).randbytes(5000)


def session(end: int, begin: int = -1, log: bytes = LOG) -> SlaveSession:
    """A slave whose log is `log` up to `end`, of which it compares what begins at `begin`."""
    begin = begin if begin >= 0 else compare_from(0, end, 300, FILE)
    return SlaveSession(end, log[begin:end], FILE, Pace(), 0)


def transfers(begin: int, end: int, size: int = 100) -> bytes:
    """What a master sends of LOG."""
    frames = [(at, min(size, end - at)) for at in range(begin, end, size)]
    return b"".join(encode_header(at, part) + LOG[at : at + part] for at, part in frames)


def test_comparison_starts_within_the_last_file() -> None:
    assert compare_from(0, 0, 300, FILE) == 0
    assert compare_from(0, 200, 300, FILE) == 1, "0 would ask for the newest file"
    assert compare_from(0, 900, 300, FILE) == 600
    assert compare_from(0, 1100, 300, FILE) == 1000, "the master may have deleted the file before"
    assert compare_from(0, 2000, 300, FILE) == 1700
    assert compare_from(1900, 2000, 300, FILE) == 1900


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_split_anywhere_gives_the_log(seed: int) -> None:
    draw = random.Random(seed)
    end = draw.choice((0, 1, 250, 1000, 1001, 2345))
    begin = compare_from(0, end, 300, FILE)
    made = session(end)
    assert made.hello(0) == encode_report(begin)
    stream = encode_header(begin, 0) + transfers(begin, 4000, draw.choice((1, 33, 100, 5000))) + encode_header(4000, 0)
    own, at = LOG[:end], 0
    while at < len(stream):
        size = draw.choice((1, 5, 12, 13, 100, 999))
        piece = made.received(stream[at : at + size], 0)
        assert piece.offset == len(own) or not piece.data
        own += piece.data
        at += size
    assert own == LOG[:4000]
    assert made.compared
    assert made.end == 4000


def test_an_empty_slave_begins_where_the_masters_newest_file_does() -> None:
    made = session(0)
    assert made.hello(0) == encode_report(0)
    assert made.received(encode_header(3000, 0), 0).data == b""
    piece = made.received(encode_header(3000, 5) + b"abcde", 0)
    assert piece == (3000, b"abcde")


def test_a_file_size_that_is_not_the_masters_is_refused() -> None:
    with pytest.raises(NotReplicated, match="starts at offset 1500, .* mappedFileSizeCommitLog = 1000"):
        session(0).received(encode_header(1500, 5) + b"a", 0)


@pytest.mark.parametrize("at", [600, 601, 899])
def test_another_tail_is_refused_with_its_offset_and_nothing_is_appended(at: int) -> None:
    other = LOG[:at] + bytes([LOG[at] ^ 1]) + LOG[at + 1 :]
    made = session(900, log=other)
    with pytest.raises(NotReplicated, match=f"differ at offset {at}: .* up to 900"):
        made.received(transfers(600, 1000), 0)
    assert made.end == 900


@pytest.mark.parametrize("offset", [0, 599, 601])
def test_an_offset_that_was_not_asked_for_is_refused(offset: int) -> None:
    sentence = f"sends offset {offset}, but this log ends at 900 and this slave requested 600"
    with pytest.raises(NotReplicated, match=sentence):
        session(900).received(encode_header(offset, 0), 0)


def test_a_gap_is_refused() -> None:
    made = session(0)
    made.received(encode_header(0, 5) + b"abcde", 0)
    with pytest.raises(NotReplicated, match="sends offset 6, but this log ends at 5"):
        made.received(encode_header(6, 0), 0)


def test_a_master_that_does_not_have_our_end_is_not_followed() -> None:
    made = session(900)
    made.received(transfers(600, 700), 4000)
    made.received(encode_header(700, 0), 9000)
    made.check(16_499)
    with pytest.raises(NotReplicated, match="sent no data from offset 700, but this log ends at 900"):
        made.check(16_500)
    whole = session(900)
    whole.received(transfers(600, 900), 0)
    whole.check(1 << 40)


def test_reports_say_what_is_kept_and_that_we_live() -> None:
    made = session(900)
    made.hello(0)
    assert made.report(900, 5000) == b""
    assert made.report(900, 5001) == encode_report(600), "not compared yet: no more than was asked for"
    made.received(transfers(600, 1000), 5002)
    assert made.report(900, 5002) == encode_report(900), "100 bytes more are not on disk yet"
    assert made.report(900, 5003) == b""
    assert made.report(1000, 5004) == encode_report(1000)
    assert made.report(1000, 10_004) == b""
    assert made.report(1000, 10_005) == encode_report(1000)


def test_a_transfer_that_is_short_says_that_there_is_no_more() -> None:
    made = SlaveSession(0, b"", 1 << 20, Pace(batch=100), 0)
    assert not made.has_all
    made.received(encode_header(0, 100) + LOG[:100], 0)
    assert not made.has_all
    made.received(encode_header(100, 99) + LOG[100:150], 0)
    assert not made.has_all
    made.received(LOG[150:199], 0)
    assert made.has_all
    made.received(encode_header(199, 100) + LOG[199:299], 0)
    assert not made.has_all
    made.received(encode_header(299, 0), 0)
    assert made.has_all


def test_a_silent_master_is_gone() -> None:
    made = session(0)
    assert not made.silent(20_000)
    assert made.silent(20_001)
    made.received(encode_header(0, 0), 15_000)
    assert made.due() == 5001
    assert not made.silent(35_000)


def test_the_dialogue_of_5_5_0() -> None:
    records = random.Random(2).randbytes(702)
    made = SlaveSession(0, b"", 1 << 30, Pace(), 0)
    assert made.hello(0).hex() == "0000000000000000"
    assert made.received(bytes.fromhex("0000000000000000000002be") + records, 1) == (0, records)
    assert made.report(702, 1).hex() == "00000000000002be"
    assert made.received(bytes.fromhex("00000000000002be00000000"), 5001).data == b""
    assert made.report(702, 5002).hex() == "00000000000002be"
