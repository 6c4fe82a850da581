"""The frames of plain replication, in any pieces."""

from __future__ import annotations

import random

import pytest

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import Piece, ReportReader, TransferReader, encode_header, encode_report


def joined(pieces: list[Piece]) -> list[Piece]:
    """Pieces that follow one another as one."""
    whole: list[Piece] = []
    for piece in pieces:
        if piece.data and whole and whole[-1].data and whole[-1].offset + len(whole[-1].data) == piece.offset:
            whole[-1] = Piece(whole[-1].offset, whole[-1].data + piece.data)
        else:
            whole.append(piece)
    return whole


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_split_anywhere_is_the_same(seed: int) -> None:
    draw = random.Random(seed)
    stream, expected, at = b"", [], 100
    for _ in range(30):
        data = draw.randbytes(draw.choice((0, 1, 11, 12, 13, 700, 40_000)))
        stream += encode_header(at, len(data)) + data
        expected.append(Piece(at, data))
        at += len(data)
    reader, got, begin = TransferReader(), [], 0
    while begin < len(stream):
        size = draw.choice((1, 2, 7, 11, 12, 13, 5000, 100_000))
        got += reader.receive(stream[begin : begin + size])
        begin += size
    assert joined(got) == joined(expected)


def test_bytes_leave_before_their_transfer_is_whole() -> None:
    reader = TransferReader()
    assert reader.receive(encode_header(7, 1000) + b"abc") == [Piece(7, b"abc")]
    assert reader.receive(b"de") == [Piece(10, b"de")]


@pytest.mark.parametrize("seed", range(5))
def test_only_the_last_whole_report_of_a_read_counts(seed: int) -> None:
    draw = random.Random(seed)
    offsets = [draw.randrange(1 << 60) for _ in range(40)]
    stream = b"".join(map(encode_report, offsets))
    reader, begin = ReportReader(), 0
    while begin < len(stream):
        end = begin + draw.randrange(1, 40)
        whole = min(end, len(stream)) // 8
        expected = offsets[whole - 1] if whole > begin // 8 else None
        assert reader.receive(stream[begin:end]) == expected
        begin = end


def test_numbers_outside_the_limits_end_the_stream() -> None:
    for header in (encode_header(-1, 0), encode_header(0, -1), encode_header(0, 4 * 1024 * 1024 - 11)):
        with pytest.raises(NotReplicated):
            TransferReader().receive(header)
    with pytest.raises(NotReplicated):
        ReportReader().receive(encode_report(-1))
