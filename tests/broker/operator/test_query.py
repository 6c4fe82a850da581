"""Finding messages by key, unique key, tags and offset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.operator.query import QueryService
from bolide.broker.options.composed import BrokerOptions
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.store.errors import RecordDamaged
from tests.broker.parts import NOW, Parts, reply_of, send_request, text


class Queries(Parts):
    """The parts with queries."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = QueryService(BrokerOptions.of(**settings), self.store)

    def ask(self, code: int, **fields: str) -> Command:
        return reply_of(self.service.handlers()[code](self.channel, make_request(code, 1, fields), NOW))

    def by_key(self, key: str, **fields: str) -> Command:
        span = {"beginTimestamp": "0", "endTimestamp": str(1 << 62)}
        return self.ask(codes.QUERY_MESSAGE, **{"topic": "T", "key": key, "maxNum": "64", **span, **fields})


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Queries]:
    made = Queries(tmp_path)
    for number in range(40):
        sent = text(UNIQ_KEY="U" if number else "FIRST", KEYS=f"k{number} all", TAGS="a" if number % 2 else "b")
        assert made.answer(send_request(body=b"%d" % number, properties=sent), NOW + number).code == 0
    yield made
    made.close()


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == codes.SUCCESS
    return [record.body for record in decode_records(answer.body)]


def test_by_key(parts: Queries) -> None:
    assert bodies(parts.by_key("k7")) == [b"7"]
    assert len(bodies(parts.by_key("all"))) == 40
    assert len(bodies(parts.by_key("all", maxNum="3"))) == 3


def test_both_ends_of_the_range_are_exact(parts: Queries) -> None:
    span = {"beginTimestamp": str(NOW + 10), "endTimestamp": str(NOW + 12)}
    assert bodies(parts.by_key("all", **span)) == [b"10", b"11", b"12"]
    assert bodies(parts.by_key("all", maxNum="2", **span)) == [b"11", b"12"]


def test_a_unique_key_has_a_limit_of_its_own(parts: Queries) -> None:
    assert bodies(parts.by_key("FIRST", _UNIQUE_KEY_QUERY="true", maxNum="1")) == [b"0"]
    assert len(bodies(parts.by_key("U", _UNIQUE_KEY_QUERY="true", maxNum="1"))) == 32


def test_the_limits_are_settings(tmp_path: Path) -> None:
    parts = Queries(tmp_path, max_msgs_num_batch=5, default_query_max_num=3)
    for _ in range(9):
        parts.answer(send_request(properties=text(UNIQ_KEY="U", KEYS="all")), NOW)
    assert len(bodies(parts.by_key("all"))) == 5
    assert len(bodies(parts.by_key("U", _UNIQUE_KEY_QUERY="true"))) == 3
    parts.close()


def test_by_tags(parts: Queries) -> None:
    assert bodies(parts.by_key("b", indexType="T")) == [b"%d" % number for number in range(0, 40, 2)]
    assert parts.by_key("b").code == codes.QUERY_NOT_FOUND
    assert bodies(parts.by_key("k7", indexType="K")) == [b"7"]


def test_missing_message_is_not_found(parts: Queries) -> None:
    answer = parts.by_key("k77")
    assert answer.code == codes.QUERY_NOT_FOUND
    assert answer.ext() == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
    found = parts.by_key("k7").ext()
    assert found["indexLastUpdateTimestamp"] == str(NOW + 39)
    assert int(found["indexLastUpdatePhyoffset"]) > 0
    assert parts.by_key("k7", topic="S").code == codes.QUERY_NOT_FOUND
    assert parts.ask(codes.VIEW_MESSAGE_BY_ID, offset="1").code == codes.SYSTEM_ERROR


def test_by_offset(parts: Queries) -> None:
    record = parts.records("T")[5]
    assert bodies(parts.ask(codes.VIEW_MESSAGE_BY_ID, offset=str(record.physical_offset))) == [b"5"]


def test_no_damaged_message_is_shown(parts: Queries) -> None:
    damaged = parts.records("T")[7]
    parts.damage("T", 7)
    view = {"offset": str(damaged.physical_offset)}
    for ask in (lambda: parts.by_key("k7"), lambda: parts.ask(codes.VIEW_MESSAGE_BY_ID, **view)):
        with pytest.raises(RecordDamaged, match="topic T, queue 0, offset 7, does not match its CRC"):
            ask()
    assert bodies(parts.by_key("k8")) == [b"8"]
