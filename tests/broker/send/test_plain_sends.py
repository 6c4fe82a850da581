"""The native kernel: plain sends by it and without it leave the same answers and the same disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.broker.send.plain_sends import kernel_type
from bolide.declaration import with_values
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.codes import BINARY_TYPE, FLAG_ONEWAY, JSON_TYPE
from bolide.remoting.command import frame_head
from bolide.store.background.running_flags import NOT_WRITABLE
from bolide.store.disk.files import FileFailed
from proof.fuzz.target import KIB
from proof.fuzz.targets.sends import LONG, SHORT, batch, ordinary, plain, sends, written
from proof.fuzz.two_ways import Way, compare

pytestmark = pytest.mark.skipif(kernel_type() is None, reason="the native kernel is not built here")

FIRST = b"".join(plain(number, number) for number in range(4))
"""After these every queue of T has a number."""
KEY = "UNIQ_KEY\x017F000001000000000000000000000000\x02"


BATCH = encode_batch(
    [BatchMessage(number, b"body", b"UNIQ_KEY\x01%032X\x02TAGS\x01a\x02KEYS\x01k" % number) for number in range(3)]
)


def frame(properties: str, code: int = codes.SEND_MESSAGE_V2, kind: int = JSON_TYPE, flag: int = 0) -> bytes:
    names = LONG if code == codes.SEND_MESSAGE else SHORT
    ext = {**ordinary(5), "properties": properties}
    return written(code, 5, {names[name]: value for name, value in ext.items()}, b"hello", kind, flag)


def of_java(opaque: int, queue_id: int) -> bytes:
    """As the Java client 5.5.0 writes it."""
    header = (
        b'{"code":310,"extFields":{"a":"producers","b":"T","c":"TBW102","d":"4","e":"%d","f":"0","g":"1700000000000",'
        b'"h":"0","i":"KEYS\\u0001k\\u0002UNIQ_KEY\\u00017F0000010000000000000000%08X\\u0002WAIT\\u0001true\\u0002'
        b'TAGS\\u0001a\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":%d,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}' % (queue_id, opaque, opaque)
    )
    return frame_head(header, JSON_TYPE, 5) + b"hello"


def size_of(read: bytes) -> str:
    """The name of a test: its bytes would fill pages."""
    return f"{len(read)} bytes"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_sends_have_the_same_effect_by_the_kernel_and_without(data: bytes) -> None:
    sends(data)


@pytest.mark.parametrize(
    "read",
    [
        b"".join(of_java(number, number % 4) for number in range(32)),
        frame(KEY),
        frame(KEY, codes.SEND_MESSAGE),
        frame(KEY, kind=BINARY_TYPE),
        frame(KEY, codes.SEND_MESSAGE, BINARY_TYPE),
        batch(5, 1, BATCH),
        batch(5, 1, BATCH, "WAIT\x01true\x02UNIQ_KEY\x01U\x02") + plain(6, 1),
        batch(5, 1, BATCH, "WAIT\x01true\x02", BINARY_TYPE) + batch(6, 2, BATCH, "UNIQ_KEY\x01U\x02", BINARY_TYPE),
        batch(5, 1, encode_batch([BatchMessage(-1, b"x" * 200, b"")] * 100)),
        frame(KEY, codes.SEND_BATCH_MESSAGE),
        frame(KEY + "mine\x01a\x01b\x02TAGS\x01t\x02TAGS\x01u"),
    ],
    ids=size_of,
)
def test_sends_of_clients_use_the_kernel(read: bytes) -> None:
    assert compare([FIRST, read]) == len(read)
    assert compare([FIRST, read], peer="fe80::1", own="::1", flush_disk_type="SYNC_FLUSH") == len(read)


@pytest.mark.parametrize(
    "read",
    [
        frame("KEYS\x01no key of its own\x02"),
        frame(KEY + "DELAY\x012\x02"),
        frame(KEY + "WAIT\x01false\x02"),
        frame(KEY + "__RMQ.TRANSIENT.a\x011\x02"),
        frame(KEY + "a\x01\0\x02", kind=BINARY_TYPE),
        frame(KEY + "a\x01\u4e2d\x02"),
        frame("UNIQ_KEY\x01a\x01b\x02"),
        frame(KEY, flag=FLAG_ONEWAY),
        plain(5, 4),
        batch(5, 1, BATCH, "DELAY\x011\x02"),
        batch(5, 1, b""),
        batch(5, 1, BATCH[:-1]),
        batch(5, 1, BATCH + encode_batch([BatchMessage(0, b"x", b"DELAY\x011\x02")])),
        batch(5, 1, BATCH + encode_batch([BatchMessage(0, b"x", b"a\x01\0\x02")])),
        batch(5, 1, encode_batch([BatchMessage(0, b"", b"")] * 16_385)),
        plain(5, 0, b"x" * 41_000),
        of_java(1, 0).replace(b'"m":"false"', b'"m":"fals\\"'),
    ],
    ids=size_of,
)
def test_other_sends_skip_the_kernel(read: bytes) -> None:
    assert compare([FIRST, read]) == 0


def test_a_send_that_is_not_plain_leaves_those_before_it_to_the_kernel() -> None:
    before, after = plain(5, 1), plain(7, 2)
    assert compare([FIRST, before + frame(KEY + "DELAY\x012\x02") + after]) == len(before)


def test_a_frame_in_pieces_is_plain_once_it_is_whole() -> None:
    one, two = plain(5, 1), plain(6, 2)
    assert compare([FIRST, one + two[:3], two[3:20], two[20:]]) == len(one + two)


@pytest.mark.parametrize("kind", [JSON_TYPE, BINARY_TYPE])
def test_a_long_batch_in_pieces_and_the_next_send_use_the_kernel(kind: int) -> None:
    messages = [BatchMessage(number, b"x" * 200, b"UNIQ_KEY\x01%032X\x02" % number) for number in range(330)]
    long = batch(5, 1, encode_batch(messages), "WAIT\x01true\x02", kind)
    assert len(long) > 80_000
    after = plain(6, 1)
    reads = [long[:70_000], long[70_000:] + after]
    assert compare([FIRST, *reads], max_message_size=100 * KIB) == len(long + after)
    assert compare([FIRST, plain(4, 2) + long[:9], long[9:-1], long[-1:]], max_message_size=100 * KIB) > len(long)


def test_an_invalid_long_batch_does_not_disable_the_kernel() -> None:
    long = batch(5, 1, encode_batch([BatchMessage(0, b"x" * 70_000, b"")]) + BATCH[:-1])
    after = plain(6, 1)
    assert compare([FIRST, long[:70_000], long[70_000:] + after, after], max_message_size=100 * KIB) == len(after)


def test_files_are_filled_and_begun_as_without_the_kernel() -> None:
    reads = [
        b"".join(plain(number, number % 4, b"x" * 8_000) for number in range(start, start + 15))
        for start in (5, 20, 35)
    ]
    assert compare([FIRST, *reads]) > 200_000


def test_a_queue_without_a_number_gets_one_by_the_ordinary_way() -> None:
    assert compare([plain(0, 0), plain(1, 1), plain(2, 1)]) == len(plain(2, 1))


def both(act: Callable[[Way], None], *reads: bytes, **options: object) -> tuple[Way, Way]:
    """Do something to both after their first reads, and give them more; they have the same facts."""
    ways = Way(True, **options), Way(False, **options)
    for way in ways:
        way.read(FIRST)
        act(way)
        for read in reads:
            way.read(read)
    assert ways[0].facts() == ways[1].facts()
    return ways


def closed(way: Way) -> None:
    way.service.configure(with_values(way.options, {"broker_permission": 4}))


def later(way: Way) -> None:
    way.service.configure(with_values(way.options, {"start_accept_send_request_time_stamp": 1 << 50}))


def full(way: Way) -> None:
    way.store.flags.set(NOT_WRITABLE)


def unread(way: Way) -> None:
    way.channel.queued = 1 << 30


def hooked(way: Way) -> None:
    handlers = way.executor._handlers
    own = handlers[codes.SEND_MESSAGE_V2]
    handlers[codes.SEND_MESSAGE_V2] = lambda channel, command, now: own(channel, command, now)


def gone(way: Way) -> None:
    del way.topics.table["T"]


@pytest.mark.parametrize("act", [closed, later, full, unread, hooked, gone])
def test_whatever_holds_sends_up_holds_plain_ones_up(act: Callable[[Way], None]) -> None:
    ways = both(act, of_java(9, 1))
    assert ways[0].taken == 0


def test_a_slave_takes_none() -> None:
    assert compare([FIRST, of_java(9, 1)], broker_role="SLAVE", broker_id=1) == 0


def test_too_many_that_wait_for_the_disk_are_counted_one_by_one() -> None:
    def stalled(way: Way) -> None:
        way.syncs = False

    few = b"".join(of_java(number, 0) for number in range(10, 16))
    ways = both(stalled, few, few, of_java(9, 1), flush_disk_type="SYNC_FLUSH", send_thread_pool_queue_capacity=10)
    assert ways[0].executor.parked_count == 12 and b"[OVERLOAD]" in b"".join(ways[0].host.sent)


def test_sends_that_cannot_be_written_are_all_refused_and_their_numbers_are_free() -> None:
    def fails(way: Way) -> None:
        way.files.fail_next("write_at", FileFailed("no"))

    read = of_java(10, 0) + of_java(11, 0)
    ways = both(fails, read, read)
    answers = b"".join(ways[0].host.sent)
    assert ways[0].taken == 2 * len(read) and answers.count(b'{"code":14,') == 2 and answers.count(b'{"code":0,') == 6


def test_a_batch_that_is_not_plain_to_its_end_leaves_nothing_of_it_behind() -> None:
    torn = batch(6, 1, BATCH + b"\0")
    read = batch(5, 1, BATCH) + torn + batch(7, 1, BATCH)
    assert compare([FIRST, read, plain(8, 1)]) == len(batch(5, 1, BATCH) + plain(8, 1))
