"""Reads full of sends, plain and nearly plain, by the native kernel and without it: the same answers and the same disk.

Where the kernel was not built both take the ordinary way, and nothing can differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.codes import BINARY_TYPE, FLAG_ONEWAY, JSON_TYPE
from bolide.remoting.command import Command, encode, frame_head
from bolide.remoting.envelope import JSON_ENCODER
from bolide.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from proof.fuzz.choices import NUMBERS, TEXTS, Choices
from proof.fuzz.target import MIB, Limits, Target
from proof.fuzz.two_ways import compare

SENDS: Final = 24
TOPICS: Final = ("T", "T", "T", "U", "t" * 127, "M", "%RETRY%g", "new", "", "TBW102", "SCHEDULE_TOPIC_XXXX", "%LMQ%a")
SMALL: Final = (b"", b"x", b"hello", b"b" * 1000)
BODIES: Final = (*SMALL * 6, bytes(range(256)), b"c" * 30_000, b"d" * 50_000)
PROPERTIES: Final = (
    *(
        "KEYS\x01k1 k2\x02",
        "TAGS\x01a\x02",
        "TAGS\x01b\x02",
        "WAIT\x01true\x02",
        "mine\x01v\x02",
        "TAGS\x01" + "t" * 300,
    ),
    *(
        "\x02",
        "UNIQ_KEY\x01",
        "UNIQ_KEY\x01a\x01b\x02",
        "UNIQ_KEY\x01again\x02",
        "WAIT\x01false\x02",
        "WAIT\x01True\x02",
    ),
    *(
        "nothing\x02",
        "\x01v\x02",
        "KEYS\x01\x02",
        "DELAY\x013\x02",
        "DELAY\x01x\x02",
        "TRAN_MSG\x01true\x02",
        "中\x01文\x02",
    ),
    *("TIMER_DELAY_MS\x015000\x02", "__RMQ.TRANSIENT.a\x011\x02", "__RMQ.TRANSIENT\x011\x02", "CLUSTER\x01c\x02"),
    *("_SYS_MSG_PRIORITY_\x012\x02", "INNER_NUM\x012\x02", 'q\x01"\\/\x02', "z\x01\0\x02", "n\x01\n\x7f\x02", "a\x01b"),
    *("INNER_MULTI_DISPATCH\x01%LMQ%a\x02", "long\x01" + "l" * 20_000 + "\x02", "POP_CK\x01c\x02", "TRACE_ON\x01x\x02"),
)
MORE: Final = ("TAGS\x01a\x02", "TAGS\x01a", "TAGS\x01b\x02mine\x01v\x02", "", "\x02mine\x01v\x01w\x02\x02")
OF_BATCH: Final = (
    "WAIT\x01true\x02",
    "",
    "WAIT\x01true\x02",
    "UNIQ_KEY\x01B\x02",
    "WAIT\x01false\x02",
    "DELAY\x011\x02",
)
SHORT: Final = {field.attribute: field.name for field in SendMessageRequestHeaderV2.fields()}
LONG: Final = {field.attribute: field.name for field in SendMessageRequestHeader.fields()}


def sends(data: bytes) -> None:
    """Both ways give the same."""
    choices = Choices(data)
    settings = {
        "flush_disk_type": choices.pick(("ASYNC_FLUSH", "SYNC_FLUSH")),
        "peer": choices.pick(("10.1.2.3", "10.1.2.3", "fe80::1")),
        "own": choices.pick(("127.0.0.1", "127.0.0.1", "::1")),
    }
    compare(reads_of(choices), **settings)


def reads_of(choices: Choices) -> list[bytes]:
    """The sends of an input, cut into reads anywhere; sometimes a byte of them is another."""
    frames = [plain(number, number) for number in range(4)]  # each queue of T has a number after these
    while choices.left and len(frames) < SENDS:
        if choices.flag():
            frames.append(one_send(choices, len(frames)))
        elif choices.flag():
            frames.append(batch(len(frames), choices.below(4), elements(choices), choices.pick(OF_BATCH)))
        else:
            frames.append(plain(len(frames), choices.below(4), choices.pick(BODIES), choices.pick(MORE)))
    stream = b"".join(frames[4:])
    if stream and choices.flag():
        at = choices.below(len(stream))
        stream = stream[:at] + bytes([choices.byte()]) + stream[at + 1 :]
    reads = [b"".join(frames[:4])]
    while stream:
        size = choices.below(len(stream)) + 1 if choices.flag() else len(stream)
        reads.append(stream[:size])
        stream = stream[size:]
    return reads


def plain(number: int, queue_id: int, body: bytes = b"hello", more: str = "") -> bytes:
    """A send with nothing special."""
    properties = f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01k{number}\x02WAIT\x01true\x02{more}"
    ext = {**ordinary(number), "queue_id": str(queue_id), "properties": properties}
    return written(codes.SEND_MESSAGE_V2, number, {SHORT[name]: value for name, value in ext.items()}, body)


def batch(number: int, queue_id: int, body: bytes, properties: str = "", kind: int = JSON_TYPE) -> bytes:
    """A batch as Java's producer sends it."""
    ext = {**ordinary(number), "queue_id": str(queue_id), "properties": properties, "batch": "true"}
    return written(codes.SEND_BATCH_MESSAGE, number, {SHORT[name]: value for name, value in ext.items()}, body, kind)


def elements(choices: Choices) -> bytes:
    """The body of a batch: plain messages, now and then one that is not, or bytes that do not fit."""
    made: list[BatchMessage] = []
    for number in range(choices.below(9)):
        properties = f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02" + choices.pick(MORE)
        if choices.byte() % 16 == 15:
            properties = choices.pick(PROPERTIES)
        made.append(BatchMessage(number, choices.pick(BODIES), properties.encode()))
    body = encode_batch(made)
    if body and choices.byte() % 16 == 15:
        at = choices.below(len(body))
        body = body[:at] + bytes([choices.byte()]) + body[at + 1 :]
    return body


def ordinary(number: int) -> dict[str, str]:
    """The fields of a send as Java's producer fills them."""
    return {
        "producer_group": "pg", "topic": "T", "default_topic": "TBW102", "default_topic_queue_nums": "4",
        "queue_id": "0", "sys_flag": "0", "born_timestamp": str(1_700_000_000_000 + number), "flag": "0",
        "properties": "", "reconsume_times": "0", "unit_mode": "false", "batch": "false",
    }  # fmt: skip


def one_send(choices: Choices, number: int) -> bytes:
    """A frame that is plain, or is not for one or two reasons."""
    ext = ordinary(number)
    ext["topic"] = choices.pick(TOPICS)
    ext["queue_id"] = str(choices.below(5) - (1 if choices.flag() else 0))
    ext["sys_flag"] = choices.pick(("0", "0", "1", "2", "4", "8", "16", "48", "128", "64", "769"))
    key = choices.pick(("UNIQ_KEY\x01%032X\x02", "UNIQ_KEY\x01%032X\x02", 'UNIQ_KEY\x01%X"\\\x02', "%.0s"))
    ext["properties"] = key % number + "".join(choices.pick(PROPERTIES) for _ in range(choices.below(4)))
    for _ in range(choices.below(3)):
        name = choices.pick(tuple(ext))
        value = choices.pick(TEXTS) if choices.flag() else str(choices.pick(NUMBERS))
        if choices.flag():
            del ext[name]
        elif name not in ("topic", "properties") or choices.flag():
            ext[name] = value
    code = choices.pick((*(codes.SEND_MESSAGE_V2,) * 4, codes.SEND_MESSAGE, codes.SEND_BATCH_MESSAGE, 12))
    names = LONG if code == codes.SEND_MESSAGE else SHORT
    if choices.flag():
        names = SHORT if names is LONG else LONG
    fields = {names[name]: value for name, value in ext.items() if name in names}
    if choices.flag():
        fields[choices.pick(("n", "o", "topic", "b", "AccessKey", ""))] = choices.pick(TEXTS)
    body = choices.pick(BODIES)
    if code == codes.SEND_BATCH_MESSAGE:
        fields["m"] = "true"
        body = encode_batch([BatchMessage(0, b"x", b"TAGS\x01a\x02")] * choices.below(4))
    if choices.flag():
        return odd_json(choices, code, number, fields, body)
    binary = choices.flag()
    flag = FLAG_ONEWAY if choices.byte() % 16 == 15 else 0
    return written(code, number, fields, body, BINARY_TYPE if binary else JSON_TYPE, flag)


def written(
    code: int, opaque: int, fields: dict[str, str], body: bytes, serialize_type: int = JSON_TYPE, flag: int = 0
) -> bytes:
    """A frame as a client of Bolide writes it."""
    tame = {key: value.encode("utf-8", "replace").decode() for key, value in fields.items()}
    return encode(Command(code, opaque=opaque, flag=flag, serialize_type=serialize_type, body=body, ext=tame))


def odd_json(choices: Choices, code: int, opaque: int, fields: dict[str, str], body: bytes) -> bytes:
    """A frame whose JSON somebody else wrote: blanks, another order, escapes, a field twice, fields of no use."""
    ext = JSON_ENCODER.encode({key: value.encode("utf-8", "replace").decode() for key, value in fields.items()})
    parts = [
        b'"code":%d' % code,
        b'"extFields":' + ext,
        b'"flag":' + choices.pick((b"0", b"0", b"1", b"2", b"-0", b"00", b"0.0", b'"0"')),
        b'"language":' + choices.pick((b'"JAVA"', b'"GO"', b"5", b"null", b'"\\u0041"')),
        b'"opaque":' + choices.pick((b"%d" % opaque, b"-7", b"2147483648", b"1e2", b"007")),
        b'"serializeTypeCurrentRPC":"JSON"',
        b'"version":' + choices.pick((b"513", b"-1", b"99999999999")),
    ]
    if choices.flag():
        parts.insert(choices.below(8), choices.pick((b'"remark":null', b'"remark":"r"', b'"other":[1]', parts[2])))
    if choices.flag():
        parts.reverse()
    header = (
        b"{" + choices.pick((b",", b",", b", ", b" ,\n")).join(parts) + choices.pick((b"}", b"}", b" }", b"}}", b""))
    )
    header = choices.pick(
        (header, header, header.replace(b"\\u0001", b"\\u00011", 1), header.replace(b'"a"', b'"\\u0061"'))
    )
    return frame_head(header, JSON_TYPE, len(body)) + body


def seeds() -> Iterable[bytes]:
    """A few inputs that are plain all the way, and some that are anything."""
    yield bytes(40)
    yield bytes(range(256))
    yield bytes((7 * number) % 256 for number in range(600))


TARGETS: Final = (Target("sends", sends, seeds, Limits(memory=64 * MIB, steps=0), largest=600, cost=200.0),)
