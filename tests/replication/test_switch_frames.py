"""The frames of the auto-switch mode, with what RocketMQ 5.5.0 sent (docs/protocol/ha.md 6)."""

from __future__ import annotations

import random

import pytest

from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.frames import MAX_BODY
from bolide.replication.switch_frames import (
    EpochPiece,
    HearingReader,
    Held,
    Hello,
    MasterHello,
    SendingReader,
    encode_answer,
    encode_header,
    encode_held,
    encode_hello,
    encode_report,
)

THREE = Epochs([Epoch(1, 0), Epoch(2, 2142), Epoch(3, 2856)])


def of(text: str) -> bytes:
    return bytes.fromhex(text)


def test_a_new_slave() -> None:
    assert encode_hello(Hello(2)) == of("00000001 0000 0000 0000000000000002")
    assert encode_hello(Hello(2, wants_held=True)) == of("00000001 0000 0002 0000000000000002")
    assert encode_hello(Hello(2, learner=True, wants_held=True)) == of("00000001 0000 0001 0000000000000002")
    assert encode_held(714) == of("00000003 00000000000002ca")
    assert encode_hello(Hello(2, True, True)) == of("00000001 0001 0001 0000000000000002")
    one = Epochs([Epoch(1, 0)])
    assert encode_answer(one, 714) == of("00000001 0000000c 00000000000002ca 00000001 00000001 0000000000000000")
    assert encode_report(0) == of("00000002 0000000000000000")
    assert encode_header(0, 0, Epoch(1, 0), 714) == of(
        "00000002 00000000 0000000000000000 00000001 0000000000000000 00000000000002ca"
    )
    assert encode_header(0, 714, Epoch(1, 0), 714) == of(
        "00000002 000002ca 0000000000000000 00000001 0000000000000000 00000000000002ca"
    )


def test_a_slave_that_must_be_cut() -> None:
    assert encode_answer(THREE, 2856) == of(
        "00000001 00000024 0000000000000b28 00000003 00000001 0000000000000000 00000002 000000000000085e"
        "00000003 0000000000000b28"
    )
    assert encode_report(2856) == of("00000002 0000000000000b28")


@pytest.mark.parametrize("size", [1, 3, 11, 12, 16, 20, 36, 1000])
def test_frames_of_a_slave_decode_from_any_split(size: int) -> None:
    stream = encode_hello(Hello(7, True)) * 2 + encode_report(5) + encode_report(900)
    reader, hellos, reports = HearingReader(), [], []
    for at in range(0, len(stream), size):
        heard = reader.receive(stream[at : at + size])
        hellos += [heard.hello] if heard.hello else []
        reports += [heard.report] if heard.report is not None else []
    assert set(hellos) == {Hello(7, True)}
    assert reports[-1] == 900


@pytest.mark.parametrize(
    "stream",
    [
        of("00000000"),
        of("00000003"),
        encode_report(0) + encode_hello(Hello(1)),
        encode_report(-1),
        encode_hello(Hello(-1)),
    ],
)
def test_invalid_frames_of_a_slave_are_rejected(stream: bytes) -> None:
    with pytest.raises(NotReplicated):
        HearingReader().receive(stream)


@pytest.mark.parametrize("seed", range(50))
def test_frames_of_a_master_decode_from_any_split(seed: int) -> None:
    draw = random.Random(seed)
    log = draw.randbytes(3000)
    stream = encode_answer(THREE, 3000)
    for begin in range(0, 3000, 500):
        stream += encode_header(begin, 0, Epoch(3, 7), begin) if draw.random() < 0.5 else b""
        stream += encode_held(begin)
        stream += encode_header(begin, 500, Epoch(3, 7), begin) + log[begin : begin + 500]
    reader = SendingReader(wants_held=True)
    found: list[MasterHello | EpochPiece | Held] = []
    at = 0
    while at < len(stream):
        size = draw.choice((1, 12, 35, 36, 37, 499, 2000))
        found += reader.receive(stream[at : at + size])
        at += size
    answer = found.pop(0)
    assert isinstance(answer, MasterHello)
    assert (answer.epochs.entries, answer.end) == (THREE.entries, 3000)
    assert [part.offset for part in found if isinstance(part, Held)] == list(range(0, 3000, 500))
    got = b""
    for part in found:
        if isinstance(part, Held):
            continue
        assert isinstance(part, EpochPiece)
        assert part.offset == len(got)
        assert part.epoch == (3, 7)
        assert part.confirm == len(got) - len(got) % 500
        got += part.data
    assert got == log


@pytest.mark.parametrize(
    "stream",
    [
        encode_header(0, 0, Epoch(1, 0), 0),
        of("00000001 0000000b 0000000000000000 00000001"),
        of("00000001 fffffff4 0000000000000000 00000001"),
        of("00000001 7ffffff8 0000000000000000 00000001"),
        of("00000001 00000000 ffffffffffffffff 00000001"),
        of("00000001 00000018 0000000000000b28 00000002 00000002 0000000000000000 00000001 000000000000085e"),
        encode_answer(THREE, 1) + encode_answer(THREE, 1),
        encode_answer(THREE, 1) + encode_held(1),
        encode_answer(THREE, 1) + encode_header(-1, 0, Epoch(1, 0), 0),
        encode_answer(THREE, 1) + encode_header(0, -1, Epoch(1, 0), 0),
        encode_answer(THREE, 1) + encode_header(0, MAX_BODY + 1, Epoch(1, 0), 0),
    ],
)
def test_invalid_frames_of_a_master_are_rejected(stream: bytes) -> None:
    with pytest.raises(NotReplicated):
        SendingReader().receive(stream)


def test_held_frame_is_rejected_if_negative_or_before_the_handshake() -> None:
    for stream in (encode_answer(THREE, 1) + encode_held(-1), encode_held(1) + encode_answer(THREE, 1)):
        with pytest.raises(NotReplicated):
            SendingReader(wants_held=True).receive(stream)
