"""JSON as peers write it: the lenient reader, the bodies, registrations, and what clients read of answers."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import math
import pkgutil
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from bolide.client.instance.protocol_json import json_body, queue_map, queue_map_text
from bolide.client.instance.routes import decode_route
from bolide.errors import BolideError, ProtocolError
from bolide.remoting import bodies
from bolide.remoting.bodies import Body, decode_body, encode_body
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.errors import BodyError
from bolide.remoting.json import parse_lenient, parse_long, quoted_keys
from bolide.remoting.register import RegisterBrokerBody, decode_register_body, encode_register_body
from proof.fuzz.seeds import bodies as body_seeds
from proof.fuzz.seeds import registrations
from proof.fuzz.target import Broken, Limits, Target

WORDS: Final = (
    *(b'{"$ref":"$', b'{"$ref":"$.a"}', b"{{", b'{"a":1}:', b"'", b"/*", b"*/", b"//\n", b"null", b"true", b"NaN"),
    *(
        b"1e999",
        b"-1e-999",
        b"0x10",
        b"\\u0000",
        b"\\ud83d\\ude00",
        b"\\ud800",
        b"99999999999999999999",
        b"1.5",
        b"\\x41",
    ),
    *(b"[[", b"]]", b'{"":', b'"\\"', b"{0:", b",-1:", b"1L", b"\xef\xbb\xbf", b"\xff", b'"a":', b"topicConfigTable"),
    *(b'"queueId":', b'"topic":"T"', b'"offsetTable":', b'"perm":6', b"\x00"),
)
_VERSIONS: Final = (0, 60, 200, 355, 407, 461, 513)


@functools.cache
def kinds() -> tuple[type[Body], ...]:
    """Every body, in the order of the names."""
    found: set[type[Body]] = set()
    for module in pkgutil.iter_modules(bodies.__path__, bodies.__name__ + "."):
        names = vars(importlib.import_module(module.name)).values()
        found |= {kind for kind in names if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body}
    return tuple(sorted(found, key=lambda kind: kind.__name__))


def json_text(data: bytes) -> None:
    """The lenient reader takes what the strict one does, with the same value; `parse_long` equals both."""
    lenient: Any = None
    refused = False
    try:
        lenient = parse_lenient(data)
    except BodyError:
        refused = True
    with contextlib.suppress(BodyError):
        parse_long(data)
    with contextlib.suppress(BodyError, ProtocolError):
        value = json_body(data)
        if isinstance(value, dict) and all(isinstance(item, int | str) for item in value.values()):
            queues = queue_map(value)
            if queue_map(json_body(queue_map_text(queues))) != queues:
                raise Broken(f"the map of queues {queues!r:.150}")
    quoted_keys(data)
    if b"$ref" in data:
        return
    try:
        strict = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return
    if _depth(strict) <= 100 and not refused and not same(lenient, strict):
        raise Broken(f"strictly {strict!r:.120}, leniently {lenient!r:.120}")


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def same(left: Any, right: Any) -> bool:
    """Equal, where no number equals itself and halves of characters read as Java writes them."""
    if isinstance(left, dict) and isinstance(right, dict):
        there = {_written(key): value for key, value in right.items()}
        return {_written(key) for key in left} == there.keys() and all(
            same(value, there[_written(key)]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, str) and isinstance(right, str):
        return _written(left) == _written(right)
    return bool(left == right) and type(left) is type(right)


def _written(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def body(data: bytes) -> None:
    """Any bytes as one of the bodies: refused by a BodyError, or read as what is written and read again."""
    if not data:
        return
    kind = kinds()[data[0] % len(kinds())]
    for read in (decode_body, decode_answer):
        try:
            value: Any = read(data[1:], kind)
        except BodyError:
            continue
        written = encode_body(value)
        again = decode_body(written, kind)
        if encode_body(again) != written:
            raise Broken(f"{kind.__name__}: {written!r:.150} is read as {encode_body(again)!r:.150}")


def registration(data: bytes) -> None:
    """A body of REGISTER_BROKER of any version, plain or compressed."""
    if not data:
        return
    version = _VERSIONS[data[0] % len(_VERSIONS)]
    with contextlib.suppress(BodyError):
        found = decode_register_body(data[1:], data[0] & 0x80 != 0, version)
        plain = RegisterBrokerBody(found.topic_config_serialize_wrapper, found.filter_server_list)
        for compressed in (False, True):
            written = encode_register_body(plain, compressed)
            decode_register_body(written, compressed, 513)


def route(data: bytes) -> None:
    """What a name server answers to a client: a route whose queues can be listed."""
    with contextlib.suppress(BolideError):
        found = decode_route("T", data)
        found.write_queues()
        found.read_queues()


def _bodies() -> Iterable[bytes]:
    for number, kind in enumerate(kinds()):
        yield bytes([number]) + encode_body(kind())
        for seed in body_seeds()[number % 5 :: 5]:
            yield bytes([number]) + seed
        with contextlib.suppress(TypeError, msgspec.MsgspecError):
            yield bytes([number]) + encode_body(kind()).replace(b'""', b"5").replace(b"0", b'"1"')


def _registrations() -> Iterable[bytes]:
    for seed in registrations():
        for number in (0, 5, 6, 0x86):
            yield bytes([number]) + seed


TARGETS: Final = (
    Target("json_text", json_text, body_seeds, Limits(memory_per_byte=2000), words=WORDS),
    Target("body", body, _bodies, Limits(memory_per_byte=3000, steps_per_byte=300), words=WORDS),
    Target(
        "registration", registration, _registrations, Limits(memory=70 * 1024 * 1024, memory_per_byte=40_000, steps=0),
        words=WORDS, cost=2,
    ),
    Target("route", route, body_seeds, Limits(memory_per_byte=3000), words=WORDS),
)  # fmt: skip
