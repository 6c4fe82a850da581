"""The replication stream in any pieces."""

from __future__ import annotations

import pytest

from bolide.remoting.errors import FrameError
from bolide.remoting.ha import ReportReader, Transfer, TransferReader, encode_report, encode_transfer


def test_transfers_whole_and_byte_by_byte() -> None:
    data = encode_transfer(0, b"") + encode_transfer(100, b"records") + encode_transfer(107, bytes(40_000))
    expected = [Transfer(0, b""), Transfer(100, b"records"), Transfer(107, bytes(40_000))]
    assert TransferReader().receive(data) == expected
    reader = TransferReader()
    pieces = [data[at : at + 1] for at in range(60)] + [data[60:]]
    assert [transfer for piece in pieces for transfer in reader.receive(piece)] == expected
    for cut in range(40):
        reader = TransferReader()
        assert reader.receive(data[:cut]) + reader.receive(data[cut:]) == expected


def test_only_the_last_complete_report_counts() -> None:
    reader = ReportReader()
    assert reader.receive(encode_report(5)[:7]) is None
    assert reader.receive(encode_report(5)[7:] + encode_report(9) + encode_report(11)[:3]) == 9
    assert reader.receive(encode_report(11)[3:]) == 11


def test_numbers_outside_the_limits_end_the_stream() -> None:
    with pytest.raises(FrameError):
        TransferReader().receive(encode_transfer(-1, b""))
    with pytest.raises(FrameError):
        TransferReader(max_transfer=3).receive(encode_transfer(0, b"four"))
    with pytest.raises(FrameError):
        TransferReader().receive(bytes(8) + b"\xff\xff\xff\xff")
    with pytest.raises(FrameError):
        ReportReader().receive(encode_report(-1))
