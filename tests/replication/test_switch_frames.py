"""The frames of the auto-switch mode, with what RocketMQ 5.5.0 sent (docs/protocol/ha.md 6)."""

from __future__ import annotations

import random

import pytest

from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.frames import MAX_BODY
from bolide.replication.switch_frames import (
    MOST_NAME,
    EpochPiece,
    HearingReader,
    Held,
    Hello,
    MasterFrame,
    MasterHello,
    Named,
    SendingReader,
    encode_answer,
    encode_compare,
    encode_header,
    encode_held,
    encode_hello,
    encode_named,
    encode_report,
)

THREE = Epochs([Epoch(1, 0), Epoch(2, 2142), Epoch(3, 2856)])


def of(text: str) -> bytes:
    return bytes.fromhex(text)


def test_a_new_slave() -> None:
    assert encode_hello(Hello(2)) == of("00000001 0000 0000 0000000000000002")
    assert encode_hello(Hello(2, wants_held=True)) == of("00000001 0000 0002 0000000000000002")
    assert encode_hello(Hello(2, learner=True, wants_held=True)) == of("00000001 0000 0001 0000000000000002")
    assert encode_hello(Hello(2, wants_name=True)) == of("00000001 0000 0004 0000000000000002")
    assert encode_hello(Hello(2, wants_held=True, wants_name=True)) == of("00000001 0000 0006 0000000000000002")
    assert encode_named("c#b") == of("00000004 00000003 632362")
    assert encode_compare(714) == of("00000005 00000000000002ca")
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
    "hello", [Hello(2), Hello(2, learner=True), *(Hello(2, True, False, bool(n & 1), bool(n & 2)) for n in range(4))]
)
def test_master_reads_what_a_slave_requests(hello: Hello) -> None:
    assert HearingReader().receive(encode_hello(hello)).hello == hello


def test_request_for_bytes_to_compare_differs_from_a_report() -> None:
    reader = HearingReader()
    for stream, report, compares in ((encode_compare(5), 5, True), (encode_compare(5) + encode_report(9), 9, False)):
        heard = reader.receive(stream)
        assert (heard.report, heard.compares) == (report, compares)


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
    stream = encode_named("Cluster#ä") + stream
    reader = SendingReader(wants_held=True, wants_name=True)
    found: list[MasterFrame] = []
    at = 0
    while at < len(stream):
        size = draw.choice((1, 12, 35, 36, 37, 499, 2000))
        found += reader.receive(stream[at : at + size])
        at += size
    assert found.pop(0) == Named("Cluster#ä")
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


@pytest.mark.parametrize(
    "stream",
    [
        encode_named("a") * 2,
        encode_answer(THREE, 1) + encode_named("a"),
        of("00000004 ffffffff"),
        of(f"00000004 {MOST_NAME + 1:08x}"),
    ],
)
def test_invalid_name_of_a_set_is_rejected(stream: bytes) -> None:
    with pytest.raises(NotReplicated):
        SendingReader(wants_name=True).receive(stream)


def test_name_of_a_set_that_was_not_requested_is_rejected() -> None:
    with pytest.raises(NotReplicated, match="invalid state 4"):
        SendingReader(wants_held=True).receive(encode_named("a"))
