"""A slave's side in the auto-switch mode, and both sides together (docs/protocol/ha.md 6)."""

from __future__ import annotations

import random

import pytest

from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import LogKept, NotReplicated
from bolide.replication.pacing import Pace
from bolide.replication.switch_frames import (
    Hello,
    encode_answer,
    encode_compare,
    encode_header,
    encode_held,
    encode_hello,
    encode_named,
    encode_report,
)
from bolide.replication.switch_master import SwitchMaster
from bolide.replication.switch_slave import COMPARED, OwnLog, SwitchSlave

FILE = 1000
PLAIN = Hello(2)
ONE = Epochs([Epoch(1, 0)])
TWO = Epochs([Epoch(1, 0), Epoch(2, 2142)])
THREE = Epochs([Epoch(1, 0), Epoch(2, 2142), Epoch(3, 2856)])


def slave(end: int, epochs: Epochs, epoch: int = 1, held: int = 0, hello: Hello = PLAIN) -> SwitchSlave:
    return SwitchSlave(hello, OwnLog(end, epochs, 1 << 20, held), epoch, Pace(), 0)


def newest(epochs: Epochs) -> int:
    assert epochs.last is not None
    return epochs.last.number


def compared(end: int, epochs: Epochs, cut: int, master: Epochs, master_end: int, hello: Hello) -> SwitchSlave:
    """A slave that was sent the zeros that it has up to the common end."""
    made = slave(end, epochs, newest(master), hello=hello)
    arrived = made.received(encode_answer(master, master_end), 0)
    assert (arrived.cut, arrived.compare) == (-1, (1, cut))
    assert made.comparing(bytes(cut - 1), 0) == encode_report(1)
    assert made.received(encode_header(1, cut - 1, Epoch(1, 0), 0) + bytes(cut - 1), 0).cut == cut
    return made


def following(
    end: int, epochs: Epochs, cut: int, master: Epochs, master_end: int, hello: Hello = PLAIN
) -> SwitchSlave:
    made = compared(end, epochs, cut, master, master_end, hello)
    assert made.cut_done(cut, 0) == encode_report(cut)
    return made


def test_a_new_slave_reports_0_and_learns_the_epoch_with_the_first_bytes() -> None:
    made = slave(0, Epochs())
    assert made.hello(0) == encode_hello(Hello(2))
    assert made.received(encode_answer(ONE, 714), 0).cut == 0
    assert made.cut_done(0, 0) == encode_report(0)
    assert made.received(encode_header(0, 0, Epoch(1, 0), 714), 0).runs == []
    (run,) = made.received(encode_header(0, 5, Epoch(1, 0), 714) + b"abcde", 0).runs
    assert run[0] is not None
    assert (run[0].entries, run[1], run[2]) == (ONE.entries, 0, b"abcde")
    assert made.confirm == 714


def test_an_old_master_returns() -> None:
    made = following(2142, ONE, 2142, TWO, 2856)
    (run,) = made.received(encode_header(2142, 3, Epoch(2, 2142), 2856) + b"abc", 0).runs
    assert run[0] is not None
    assert run[0].entries == TWO.entries


def test_a_longer_log_is_cut_where_it_left_the_common_one() -> None:
    made = following(3570, TWO, 2856, THREE, 2856)
    (run,) = made.received(encode_header(2856, 0, Epoch(3, 2856), 2856), 0).runs
    assert run[0] is not None
    assert (run[0].entries, run[2]) == (THREE.entries, b"")


def test_a_log_of_which_nothing_was_confirmed_gives_way_to_one_that_begins_at_0() -> None:
    def cut(theirs: Epochs, held: int) -> int:
        return slave(10, ONE, 2, held).received(encode_answer(theirs, 20), 0).cut

    assert cut(Epochs([Epoch(2, 0)]), 0) == 0
    for theirs, held in ((Epochs([Epoch(2, 0)]), 1), (Epochs([Epoch(2, 5)]), 0)):
        with pytest.raises(LogKept, match="ends at 10, have no epoch in common") as caught:
            cut(theirs, held)
        assert caught.value.at == 0


@pytest.mark.parametrize(("held", "kept"), [(2856, False), (2857, True), (3570, True)])
def test_bytes_that_the_set_holds_are_never_truncated(held: int, kept: bool) -> None:
    made = slave(3570, TWO, 3, held)
    if not kept:
        assert made.received(encode_answer(THREE, 2856), 0).compare == (1, 2856)
        return
    says = f"agree up to offset 2856, but the set has confirmed this log up to {held}"
    with pytest.raises(LogKept, match=says) as caught:
        made.received(encode_answer(THREE, 2856), 0)
    assert caught.value.at == 2856


def test_empty_master_of_the_same_epoch_truncates_no_held_bytes() -> None:
    with pytest.raises(LogKept, match="up to offset 0"):
        slave(3570, ONE, 1, 3000).received(encode_answer(ONE, 0), 0)


@pytest.mark.parametrize("epoch", [2, 4])
def test_a_master_of_another_epoch_than_the_controller_named_is_not_followed(epoch: int) -> None:
    with pytest.raises(NotReplicated, match=f"named the master of epoch {epoch}, but the last epoch of its log is 3"):
        slave(2142, ONE, epoch).received(encode_answer(THREE, 2856), 0)
    with pytest.raises(NotReplicated, match="its log is none"):
        slave(0, Epochs(), epoch).received(encode_answer(Epochs(), 0), 0)


def test_log_with_a_difference_before_the_common_end_is_not_truncated() -> None:
    made = slave(20, ONE)
    assert made.received(encode_answer(ONE, 30), 0).compare == (1, 20)
    made.comparing(b"abcdefghijklmnopqrs", 0)
    assert made.received(encode_header(1, 5, Epoch(1, 0), 0) + b"abcde", 0).cut == -1
    with pytest.raises(LogKept, match="differ at offset 8, although their epochs agree up to 20") as caught:
        made.received(encode_header(6, 24, Epoch(1, 0), 0) + b"fgXijklmnopqrs" + bytes(10), 0)
    assert caught.value.at == 8
    assert made.end == 20


def test_only_the_last_bytes_of_the_last_file_are_compared() -> None:
    def asked(common: int, begin: int = 0, file_size: int = 1 << 30) -> tuple[int, int] | None:
        own = OwnLog(common, ONE, file_size, 0, begin)
        return SwitchSlave(Hello(2), own, 1, Pace(), 0).received(encode_answer(ONE, common), 0).compare

    assert asked(3 * COMPARED) == (2 * COMPARED, 3 * COMPARED)
    assert asked(2500, file_size=FILE) == (2000, 2500)
    assert asked(2000, 1000, FILE) == (1000, 2000)
    assert asked(1000, 1000, FILE) is None, "nothing is left to compare"


def test_frames_after_the_compared_bytes_wait_for_the_truncation() -> None:
    made = slave(8, ONE, hello=Hello(2, wants_held=True))
    made.received(encode_answer(ONE, 12), 0)
    made.comparing(b"bcdefgh", 0)
    stream = encode_held(12) + encode_header(1, 9, Epoch(1, 0), 8) + b"bcdefghij"
    arrived = made.received(stream + encode_header(10, 2, Epoch(1, 0), 12) + b"kl", 0)
    assert (arrived.cut, arrived.runs) == (8, [])
    made.cut_done(8, 0)
    assert made.received(b"", 0).runs == [(None, 8, b"ijkl")]
    assert (made.end, made.confirm, made.held) == (12, 12, 12)


def test_connection_ends_if_the_bytes_to_compare_do_not_arrive() -> None:
    made = slave(8, ONE)
    made.received(encode_answer(ONE, 12), 0)
    made.comparing(b"bcdefgh", 0)
    assert made.say(8, 5001) == encode_report(1), "it is alive, and asks for what it asked"
    assert made.say(8, 5002) == b""
    made.received(encode_header(1, 0, Epoch(1, 0), 8), 10_000)
    made.check(12_499)
    assert made.due() == 10_002
    with pytest.raises(NotReplicated, match="does not send the bytes from offset 1 to 8"):
        made.check(12_500)
    with pytest.raises(NotReplicated, match="sends offset 8 instead of the requested 1"):
        made.received(encode_header(8, 1, Epoch(1, 0), 8) + b"x", 12_500)


def in_set(name: str) -> SwitchSlave:
    own = OwnLog(8, ONE, 1 << 20)
    return SwitchSlave(Hello(2, wants_name=True), own, 1, Pace(), 0, set_name=name)


def test_master_of_another_set_is_rejected_before_the_first_report() -> None:
    made = in_set("c#b")
    with pytest.raises(NotReplicated, match="a master of the set c#a, but this replica belongs to the set c#b"):
        made.received(encode_named("c#a") + encode_answer(ONE, 12), 0)
    assert made.say(8, 1) == b""


def test_bytes_to_compare_with_a_master_that_sent_its_name_are_requested_without_an_acknowledgement() -> None:
    for named, asked in ((encode_named("c#b"), encode_compare(1)), (b"", encode_report(1))):
        made = in_set("c#b")
        assert made.received(named + encode_answer(ONE, 12), 0).compare == (1, 8)
        assert made.comparing(b"bcdefgh", 0) == asked
        assert made.say(8, 5001) == asked
        assert made.received(encode_header(1, 7, Epoch(1, 0), 8) + b"bcdefgh", 0).cut == 8
        assert made.cut_done(8, 0) == encode_report(8)


def test_confirm_offset_of_rocketmq_is_used_only_with_all_ack() -> None:
    for all_confirm, held in ((False, 0), (True, 5)):
        made = SwitchSlave(Hello(2), OwnLog(0, Epochs(), FILE), 1, Pace(), 0, all_confirm)
        made.received(encode_answer(ONE, 10), 0)
        made.cut_done(0, 0)
        made.received(encode_header(0, 10, Epoch(1, 0), 5) + bytes(10), 0)
        assert made.held == held


def test_a_log_with_nothing_in_common_is_not_cut() -> None:
    with pytest.raises(NotReplicated, match="ends at 10, have no epoch in common"):
        slave(10, Epochs([Epoch(2, 0)]), 3, held=1).received(encode_answer(THREE, 2856), 0)


def test_a_log_without_epochs_does_not_follow() -> None:
    with pytest.raises(NotReplicated, match="this log has no epochs, and ends at 10"):
        slave(10, Epochs())


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [
        (2857, Epoch(3, 2857)),  # a gap
        (2855, Epoch(2, 2142)),  # once more
        (2856, Epoch(1, 0)),  # an older epoch
        (2856, Epoch(1, 2856)),  # the number of an older epoch
        (2856, Epoch(2, 2143)),  # the same with another start
        (2856, Epoch(3, 2800)),  # it began in what is here of another
        (2856, Epoch(3, 2900)),  # it begins beyond
    ],
)
def test_frames_that_contradict_what_was_agreed_on_are_refused(offset: int, epoch: Epoch) -> None:
    made = following(2856, TWO, 2856, TWO, 2856)
    with pytest.raises(NotReplicated):
        made.received(encode_header(offset, 1, epoch, 0) + b"x", 0)
    assert made.end == 2856


def test_an_empty_slave_may_begin_with_a_later_file_of_its_own_size_only() -> None:
    made = SwitchSlave(Hello(2, True), OwnLog(0, Epochs(), FILE), 2, Pace(), 0)
    made.received(encode_answer(TWO, 5000), 0)
    made.cut_done(0, 0)
    with pytest.raises(NotReplicated, match="mappedFileSizeCommitLog = 1000"):
        made.received(encode_header(4001, 1, Epoch(2, 2142), 0) + b"x", 0)
    whole = SwitchSlave(Hello(2, True), OwnLog(0, Epochs(), FILE), 2, Pace(), 0)
    whole.received(encode_answer(TWO, 5000), 0)
    whole.cut_done(0, 0)
    (run,) = whole.received(encode_header(4000, 1, Epoch(2, 2142), 0) + b"x", 0).runs
    assert run[0] is not None
    assert (run[0].entries, run[1]) == (((2, 2142),), 4000)


def test_bytes_before_the_first_report_are_refused() -> None:
    made = slave(0, Epochs())
    with pytest.raises(NotReplicated, match="before anything was reported"):
        made.received(encode_answer(ONE, 10) + encode_header(0, 1, Epoch(1, 0), 0) + b"x", 0)


def test_the_handshake_is_repeated_until_it_is_answered_then_reports_say_what_is_kept() -> None:
    made = slave(0, Epochs())
    made.hello(0)
    assert made.say(0, 5000) == b""
    assert made.say(0, 5001) == encode_hello(Hello(2))
    made.received(encode_answer(ONE, 10), 5002)
    assert made.say(0, 20_000) == b"", "the log is being cut"
    made.cut_done(0, 20_000)
    made.received(encode_header(0, 10, Epoch(1, 0), 10) + bytes(10), 20_001)
    assert made.say(0, 20_002) == b""
    assert made.say(10, 20_003) == encode_report(10)
    assert made.say(10, 25_004) == encode_report(10)
    assert not made.silent(40_001)
    assert made.silent(40_002)


@pytest.mark.parametrize("seed", range(60))
def test_a_slave_with_any_history_becomes_the_masters_copy(seed: int) -> None:
    draw = random.Random(seed)
    log = draw.randbytes(5000)
    starts = sorted(draw.sample(range(1, 5000), draw.randrange(4)))
    epochs = Epochs([Epoch(1, 0), *(Epoch(2 + at, start) for at, start in enumerate(starts))])
    shared = draw.choice([0, *range(1, 5000, 700)])
    own_epochs = epochs.cut_at(shared)
    own = log[:shared]
    if shared and draw.random() < 0.6:
        own_epochs = own_epochs.begun(50, shared)
        own += b"\0" * draw.randrange(1, 900)
    made = SwitchMaster(FILE, Pace(batch=draw.choice((7, 300, 5000))), 0)
    held = draw.randrange(shared + 1)
    other = SwitchSlave(Hello(2), OwnLog(len(own), own_epochs, FILE, held), newest(epochs), Pace(), 0)
    made.received(other.hello(0), epochs, 0, 0)
    arrived = other.received(made.answer(epochs, len(log), 0), 0)
    if arrived.compare is not None:
        begin, end = arrived.compare
        assert end == shared
        made.received(other.comparing(own[begin:end], 0), epochs, 0, 0)
        while arrived.cut < 0:
            size, at = made.wanted(epochs, len(log), 0), made.next_offset
            arrived = other.received(made.transfer(epochs, size, len(log), 0) + log[at : at + size], 0)
    assert arrived.cut == shared
    own, own_epochs = own[: arrived.cut], own_epochs.cut_at(arrived.cut)
    made.received(other.cut_done(arrived.cut, 0), epochs, 0, 0)
    for known, offset, data in other.received(b"", 0).runs:
        own_epochs = known or own_epochs
        assert offset == len(own)
        own += data
    stream = b""
    while size := made.wanted(epochs, len(log), 0):
        at = made.next_offset
        stream += made.transfer(epochs, size, len(log), 0) + log[at : at + size]
    at = 0
    while at < len(stream):
        size = draw.choice((1, 35, 36, 400, 3000))
        for known, offset, data in other.received(stream[at : at + size], 0).runs:
            own_epochs = known or own_epochs
            assert offset == len(own)
            own += data
        at += size
    assert own == log
    assert own_epochs.entries == epochs.entries
    assert made.received(other.say(len(own), 1), epochs, 0, 1)
    assert made.acked == len(log)
