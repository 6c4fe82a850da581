"""A master's session: where a slave begins, what it is sent, when it is refused."""

from __future__ import annotations

import pytest

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import encode_header, encode_report
from bolide.replication.master import KnownAhead, MasterSession
from bolide.replication.pacing import Pace

FILE = 1024 * 1024


def session(pace: Pace | None = None, ahead: KnownAhead | None = None, now: int = 0) -> MasterSession:
    return MasterSession(FILE, pace or Pace(), ahead or KnownAhead(), now)


def reported(offset: int, end: int, begin: int = 0) -> MasterSession:
    made = session()
    assert made.received(encode_report(offset), begin, end, 0)
    return made


def sent(made: MasterSession, end: int, now: int = 0) -> list[tuple[int, int]]:
    """Offsets and sizes of all that is sent now."""
    found = []
    while size := made.wanted(end, now):
        found.append((made.next_offset, size))
        made.transfer(size, now)
    return found


def test_the_dialogue_of_5_5_0() -> None:
    made = session()
    assert made.wanted(702, 0) == 0
    assert made.heartbeat(60_000) == b"", "before the first report nothing is sent"
    made.received(bytes.fromhex("0000000000000000"), 0, 702, 60_000)
    assert made.wanted(702, 60_000) == 702
    assert made.transfer(702, 60_000).hex() == "0000000000000000000002be"
    made.received(bytes.fromhex("00000000000002be"), 0, 702, 60_001)
    assert made.acked == 702
    assert made.heartbeat(65_000) == b""
    assert made.heartbeat(65_001).hex() == "00000000000002be00000000"
    assert made.heartbeat(65_002) == b""


def test_the_dialogue_of_4_9_7_begins_with_a_heartbeat() -> None:
    made = session(now=0)
    made.received(bytes.fromhex("0000000000000000"), 0, 385, 5030)
    assert made.heartbeat(5030).hex() == "000000000000000000000000"
    assert made.transfer(made.wanted(385, 5030), 5030).hex() == "000000000000000000000181"


def test_an_empty_slave_begins_with_the_newest_file() -> None:
    assert reported(0, 0).next_offset == 0
    assert reported(0, FILE - 1).next_offset == 0
    assert reported(0, 3 * FILE + 5).next_offset == 3 * FILE
    assert reported(0, 3 * FILE, begin=3 * FILE).next_offset == 3 * FILE


def test_a_transfer_ends_with_its_file() -> None:
    made = reported(1_008_576, 2 * FILE)
    assert sent(made, 2 * FILE)[:3] == [(1_008_576, 32_768), (1_041_344, 7_232), (FILE, 32_768)]


def test_last_report_of_a_read_wins() -> None:
    made = session()
    made.received(encode_report(5) + encode_report(700), 0, 800, 0)
    assert (made.next_offset, made.acked) == (700, 700)


def test_a_slave_that_is_ahead_is_refused_also_when_the_log_has_grown_past_it() -> None:
    ahead = KnownAhead()
    with pytest.raises(NotReplicated, match="offset 1000 when this log ended at 900"):
        session(ahead=ahead).received(encode_report(1000), 0, 900, 0)
    with pytest.raises(NotReplicated, match="offset 1000 when this log ended at 900"):
        session(ahead=ahead).received(encode_report(1000), 0, 5000, 0)
    session(ahead=ahead).received(encode_report(900), 0, 5000, 0)
    for other in range(2000, 2000 + 64):
        with pytest.raises(NotReplicated):
            session(ahead=ahead).received(encode_report(other), 0, 900, 0)
    session(ahead=ahead).received(encode_report(1000), 0, 5000, 0)  # what is remembered has a limit


def test_request_for_deleted_offset_is_rejected() -> None:
    with pytest.raises(NotReplicated, match=f"ends at offset 7, and this log starts at {FILE}"):
        reported(7, 2 * FILE, begin=FILE)
    assert reported(0, 2 * FILE + 1, begin=FILE).next_offset == 2 * FILE


def test_a_report_beyond_what_was_sent_is_refused() -> None:
    made = reported(100, 200)
    with pytest.raises(NotReplicated, match="reports the end 150, but was sent nothing beyond 100"):
        made.received(encode_report(150), 0, 200, 0)


def test_an_empty_slave_with_larger_files_is_found_out_by_its_first_end() -> None:
    """A slave of RocketMQ with files of 2 MiB puts what it is sent from 3 MiB on at 2 MiB, and of 4 MiB at 0."""
    end, text = 3 * FILE + 5000, f"sent this log from offset {3 * FILE} on, .* mappedFileSizeCommitLog is larger than"
    for wrong in (2 * FILE + 700, 700):
        ahead = KnownAhead()
        made = session(ahead=ahead)
        for report in (0, 0):  # as long as the first bytes are on their way
            made.received(encode_report(report), 0, end, 0)
            sent(made, end)
        with pytest.raises(NotReplicated, match=text):
            made.received(encode_report(wrong), 0, end, 0)
        with pytest.raises(NotReplicated, match=text):  # it connects again, with what it has
            session(ahead=ahead).received(encode_report(wrong), 0, end, 0)


@pytest.mark.parametrize("first", [0, 100])
def test_a_slave_with_files_of_this_size_reports_no_end_below_its_beginning(first: int) -> None:
    end = 3 * FILE + 5000 if first == 0 else 900
    made = reported(first, end)
    start = made.next_offset
    sent(made, end)
    for report in (first, first, start, start + 700, end):
        made.received(encode_report(report), 0, end, 0)
    assert made.acked == end


def test_a_silent_slave_is_gone() -> None:
    made = session(now=1000)
    assert made.due() == 21_001
    assert not made.silent(21_000)
    assert made.silent(21_001)
    made.received(encode_report(0)[:3], 0, 0, 21_001)
    assert not made.silent(41_001)


def test_a_limit_of_bytes_in_a_second() -> None:
    made = session(Pace(batch=600, most_in_second=1000))
    made.received(encode_report(1), 0, 5000, 100)
    assert sent(made, 5000, 100) == [(1, 600), (601, 400)]
    assert made.limited_until(100) == 1000
    assert made.wanted(5000, 999) == 0
    assert sent(made, 5000, 1000) == [(1001, 600), (1601, 400)]
    assert made.limited_until(2000) == -1


def test_a_heartbeat_names_what_is_sent_next() -> None:
    made = reported(100, 200)
    sent(made, 200, 10)
    assert made.heartbeat(5011) == encode_header(200, 0)
