"""The epochs of a log: what two logs have in common, and the file."""

from __future__ import annotations

import random

import pytest

from bolide.replication.epochs import Epoch, Epochs, decode_epochs
from bolide.replication.errors import EpochsDamaged, NotReplicated


def epochs(*entries: tuple[int, int]) -> Epochs:
    return Epochs(Epoch(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (((1, 0),), b"1\n1725254278\n1-0\n"),
        (((1, 0), (2, 2142)), b"2\n1045321688\n1-0\n2-2142\n"),
        (((1, 0), (2, 2142), (3, 2856)), b"3\n151762957\n1-0\n2-2142\n3-2856\n"),
    ],
)
def test_the_file_is_that_of_rocketmq(entries: tuple[tuple[int, int], ...], text: bytes) -> None:
    assert epochs(*entries).encode() == text
    assert decode_epochs(text).entries == entries


def test_a_checksum_of_0_is_not_looked_at() -> None:
    assert decode_epochs(b"1\n0\n1-0\n").entries == ((1, 0),)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1\n",
        b"1\n0\n",
        b"2\n0\n1-0\n",
        b"1\n1725254279\n1-0\n",
        b"1\n0\n1-0-0\n",
        b"1\n0\nx-0\n",
        b"1\n0\n\xff-0\n",
        b"2\n0\n2-0\n1-5\n",
        b"2\n0\n1-5\n2-5\n",
        b"1\n0\n1-9223372036854775808\n",
    ],
)
def test_invalid_epoch_file_is_rejected(text: bytes) -> None:
    with pytest.raises(EpochsDamaged):
        decode_epochs(text)


def test_an_epoch_ends_where_the_next_starts() -> None:
    known = epochs((1, 0), (3, 100), (4, 250))
    assert [known.end_of(number, 300) for number in (1, 2, 3, 4)] == [100, -1, 250, 300]
    assert [known.covering(at) for at in (0, 99, 100, 249, 250, 999)] == [
        (1, 0),
        (1, 0),
        (3, 100),
        (3, 100),
        (4, 250),
        (4, 250),
    ]
    assert epochs((2, 10)).covering(9) is None
    assert epochs().last is None


def test_common_end_follows_epochs() -> None:
    master = epochs((1, 0), (2, 2142), (3, 2856))
    assert epochs((1, 0)).common_end(2142, epochs((1, 0), (2, 2142)), 2856) == 2142
    assert epochs((1, 0), (2, 2142)).common_end(3570, master, 2856) == 2856, "vector 5"
    assert epochs((1, 0), (2, 2142)).common_end(2500, master, 2856) == 2500
    assert epochs((1, 0), (2, 2000)).common_end(2500, master, 2856) == 2000, "same number, other start"
    assert epochs((2, 0)).common_end(10, master, 2856) == -1
    assert epochs().common_end(0, master, 2856) == -1


def test_an_epoch_without_bytes_is_left_out_when_the_next_begins() -> None:
    assert epochs((1, 0), (2, 100)).begun(3, 100).entries == ((1, 0), (3, 100))
    assert epochs().begun(3, 100).entries == ((3, 100),)


@pytest.mark.parametrize(("number", "start"), [(2, 200), (1, 200), (3, 99)])
def test_an_epoch_that_cannot_follow_is_refused(number: int, start: int) -> None:
    with pytest.raises(NotReplicated, match=f"epoch {number} from offset {start} cannot follow epoch 2 from"):
        epochs((1, 0), (2, 100)).begun(number, start)


def test_cutting_takes_the_epochs_with_no_byte_left() -> None:
    known = epochs((1, 0), (2, 100), (3, 200))
    assert known.cut_at(201).entries == ((1, 0), (2, 100), (3, 200))
    assert known.cut_at(200).entries == ((1, 0), (2, 100))
    assert known.cut_at(0).entries == ()
    assert known.below_number(2).entries == ((1, 0),)
    assert known.without_before(99).entries == known.entries
    assert known.without_before(100).entries == ((2, 100), (3, 200))
    assert known.without_before(10**6).entries == ((3, 200),)


@pytest.mark.parametrize("seed", range(200))
def test_logs_are_cut_exactly_where_they_part(seed: int) -> None:
    """Masters come and go; each slave takes a front of the master's log. What the epochs name is what the bytes say."""
    draw = random.Random(seed)
    logs: list[bytes] = [b"", b"", b""]
    known = [epochs() for _ in logs]
    for number in range(1, 12):
        master = draw.randrange(3)
        known[master] = known[master].below_number(number).begun(number, len(logs[master]))
        logs[master] += bytes([number]) * draw.randrange(5)
        for slave in range(3):
            if slave == master or draw.random() < 0.4:
                continue
            end = len(logs[slave])
            common = 0 if end == 0 else known[slave].common_end(end, known[master], len(logs[master]))
            if common < 0:
                assert known[slave].entries[0] not in known[master].entries
                common = 0
            assert logs[slave][:common] == logs[master][:common]
            if common < min(end, len(logs[master])):
                assert logs[slave][common] != logs[master][common], "more is cut than differs"
            upto = draw.randrange(common, len(logs[master]) + 1)
            logs[slave] = logs[master][:upto]
            kept = known[slave].cut_at(common)
            for at in range(common, upto):
                epoch = known[master].covering(at)
                assert epoch is not None
                if epoch != kept.last:
                    kept = kept.begun(*epoch)
            known[slave] = kept
            assert decode_epochs(kept.encode()).entries == kept.entries
