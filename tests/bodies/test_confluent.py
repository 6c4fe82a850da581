"""Schemas from a registry with Confluent's API: framing, caching, and each way in which a registry can fail."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.bodies.confluent import MOST_ANSWER, ConfluentRegistry
from bolide.bodies.registry import (
    PROTOBUF,
    RegisteredSchema,
    RegistryAddress,
    RegistryError,
    UnfitBody,
)
from bolide.bodies.registry_address import registry_at
from tests.bodies.registry_server import Served, framed, registry

SCHEMA = '{"type": "record", "name": "R", "fields": []}'


@pytest.fixture
def served() -> Iterator[Served]:
    with registry() as served:
        yield served


def no_pause(_: float) -> None:
    """A double of the clock's sleep."""


def client(served: Served, **more: str) -> ConfluentRegistry:
    return ConfluentRegistry(RegistryAddress(served.address, **more), no_pause)


def test_a_body_names_its_schema_and_the_registry_is_asked_once(served: Served) -> None:
    number = served.add("orders-value", SCHEMA)
    asking = client(served)
    body = framed(number, b"payload")
    for _ in range(3):
        written = asking.read(body)
        assert (written.payload, written.schema.text, written.schema.kind) == (b"payload", SCHEMA, "avro")
        assert asking.frame(written) == body
    assert served.asked == [f"/schemas/ids/{number}"]


def test_the_newest_schema_of_a_subject(served: Served) -> None:
    served.add("a/b", SCHEMA)
    newest = served.add("a/b", SCHEMA.replace("R", "S"), "JSON")
    found = client(served).latest("a/b")
    assert (found.id, found.kind, json.loads(found.text)["name"]) == (newest, "json", "S")
    with pytest.raises(RegistryError, match="has no subject other"):
        client(served).latest("other")


def test_references_come_innermost_first_and_once(served: Served) -> None:
    served.add("money", '{"type": "fixed", "name": "Money", "size": 8}')
    money = {"name": "Money", "subject": "money", "version": 1}
    served.add("line", '{"type": "record", "name": "Line", "fields": []}', references=[money])
    line = {"name": "Line", "subject": "line", "version": 1}
    served.add("orders", SCHEMA, references=[line, money])
    assert [name for name, _ in client(served).latest("orders").references] == ["Money", "Line"]


def test_a_reference_that_is_gone_is_named(served: Served) -> None:
    served.add("orders", SCHEMA, references=[{"name": "X", "subject": "x", "version": 3}])
    with pytest.raises(RegistryError, match="lacks x version 3"):
        client(served).latest("orders")


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\0", b"{}xxxx", b"\1\0\0\0\1x"])
def test_a_body_without_a_schema_is_bad(served: Served, body: bytes) -> None:
    with pytest.raises(UnfitBody, match="does not start with a zero byte"):
        client(served).read(body)
    assert served.asked == []


def test_an_unknown_id_is_a_bad_body_and_not_asked_for_again(served: Served) -> None:
    asking = client(served)
    for _ in range(3):
        with pytest.raises(UnfitBody, match="the registry has no schema 7"):
            asking.read(b"\0\0\0\0\7x")
    assert served.asked == ["/schemas/ids/7"]


def test_a_busy_registry_is_asked_again_and_another_error_is_not(served: Served) -> None:
    served.add("s", SCHEMA)
    served.failures = [503, 429]
    assert client(served).latest("s").id == 1
    served.failures = [401, 200]
    with pytest.raises(RegistryError, match="returned 401 Unauthorized"):
        client(served).latest("s")
    assert served.failures == [200]


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b"[]",
        b"",
        b"\xff",
        b'{"schema": 5}',
        b'{"schema": "x", "schemaType": "XML"}',
        b'{"id": 1, "schema": "x", "schemaType": ["AVRO"]}',
        b'{"id": 1, "schema": "x", "references": "x"}',
        b'{"id": 1, "schema": "x", "references": {"name": "x"}}',
        b'{"id": 1, "schema": "x", "references": [5]}',
        b'{"id": 1, "schema": "x", "references": [{"name": "x", "subject": "y", "version": "latest/.."}]}',
        b'{"id": 4294967296, "schema": 5}',
        b'{"id": 1, "schema": ' + b"[" * 100_000,
    ],
    ids=lambda raw: raw[:70].decode("ascii", "replace"),
)
def test_an_answer_that_is_none(served: Served, raw: bytes) -> None:
    served.raw = raw
    with pytest.raises(RegistryError):
        client(served).latest("s")
    with pytest.raises(RegistryError):
        client(served).read(b"\0\0\0\0\1x")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
REFERENCES = st.fixed_dictionaries(
    {}, optional={"name": JSON_VALUES, "subject": JSON_VALUES, "version": st.integers() | JSON_VALUES}
)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 3) | JSON_VALUES,
        "schema": st.text() | JSON_VALUES,
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF"]) | JSON_VALUES,
        "references": st.lists(REFERENCES, max_size=3) | JSON_VALUES,
    },
)


class Inventive(ConfluentRegistry):
    """A client whose registry returns any object."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        super().__init__(RegistryAddress("http://unused"))
        self._answers = answers
        self.asked = 0

    def _ask(self, path: str) -> dict[str, Any] | None:
        self.asked += 1
        path.encode("ascii")
        return self._answers[self.asked % len(self._answers)]


@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_any_answer_is_a_schema_or_one_sentence(answers: list[dict[str, Any]]) -> None:
    asking = Inventive(answers)
    for ask in (lambda: asking.latest("s"), lambda: asking.read(b"\0\0\0\0\1\0x")):
        text = ""
        try:
            ask()
        except (RegistryError, UnfitBody) as error:
            text = str(error)
        assert len(text) < 1000


def test_schemas_that_refer_to_each_other_cost_a_bounded_number_of_requests() -> None:
    both = [{"name": name, "subject": name, "version": 1} for name in ("a", "b")]
    asking = Inventive([{"schema": "{}", "references": both}])
    asking.read(b"\0\0\0\0\1x")
    assert asking.asked == 3
    ever = Numbered()
    with pytest.raises(RegistryError, match="refers to more than 100 others"):
        ever.read(b"\0\0\0\0\1x")
    assert ever.asked == 101


class Numbered(Inventive):
    """A client whose registry returns new references with each schema."""

    def __init__(self) -> None:
        super().__init__([])

    def _ask(self, path: str) -> dict[str, Any] | None:
        self.asked += 1
        names = [f"{self.asked}-{number}" for number in range(2)]
        return {"schema": "{}", "references": [{"name": name, "subject": "s", "version": 1} for name in names]}


def test_another_server_is_not_taken_for_a_registry(served: Served) -> None:
    served.failures = [404]
    with pytest.raises(RegistryError, match="returned 404"):
        client(served).read(b"\0\0\0\0\1x")


def test_a_registry_that_is_away(served: Served) -> None:
    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        ConfluentRegistry(RegistryAddress("http://127.0.0.1:1"), no_pause).latest("s")


def test_a_huge_answer_is_not_read(served: Served) -> None:
    served.raw = b'{"schema": "' + b"x" * MOST_ANSWER + b'"}'
    with pytest.raises(RegistryError, match="more than 8388608 bytes"):
        client(served).latest("s")


def test_a_password_goes_to_no_other_host(served: Served) -> None:
    served.failures = [302]
    with pytest.raises(RegistryError, match="returned 302"):
        client(served, user="me", password="secret").latest("s")
    assert len(served.asked) == 1


def test_user_and_password_by_option_and_in_the_address(served: Served) -> None:
    served.add("s", SCHEMA)
    client(served, user="me", password="a:b%20c").latest("s")
    with_user = ConfluentRegistry(RegistryAddress(served.address.replace("://", "://me:a%3Ab@")))
    with_user.latest("s")
    texts = [base64.b64decode(one.split()[1]).decode() for one in served.authorized if one]
    assert texts == ["me:a:b%20c"] * 2 + ["me:a:b"] * 2
    for hidden in (RegistryAddress("http://x", "me", "a:b"), RegistryAddress("http://me:a:b@x")):
        assert repr(hidden) == "RegistryAddress('http://x')"


def test_errors_do_not_show_a_password_of_the_address(served: Served) -> None:
    served.failures = [403]
    with pytest.raises(RegistryError) as refused:
        ConfluentRegistry(RegistryAddress(served.address.replace("://", "://me:secret@"))).latest("s")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "http://me:secret@/x",
        "HTTP://me:secret@[x",
        "http://me:secret@x:70000",
        "https://me:secret@x/\u00fc",
        "me:secret@x:1",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(RegistryError, match="HOST:PORT|neither an address") as refused:
        registry_at(RegistryAddress(address))
    assert "secret" not in str(refused.value)


def test_an_error_whose_text_breaks_off(served: Served) -> None:
    served.failures = [403]
    served.cut = True
    with pytest.raises(RegistryError, match="returned 403 Forbidden"):
        client(served).latest("s")


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=6).map(tuple), st.binary(max_size=20))
def test_protobuf_positions_go_round(message: tuple[int, ...], payload: bytes) -> None:
    asking = ConfluentRegistry(RegistryAddress("http://unused"))
    asking._schemas[5] = RegisteredSchema(5, PROTOBUF, "")
    found = asking.read(framed(5, payload, message))
    assert (found.message, found.payload) == (message, payload)
    assert asking.frame(found) == framed(5, payload, message)


@pytest.mark.parametrize(
    "positions", [b"", b"\x80", b"\x01", b"\x02", b"\x02\x01", b"\xfe\xff\xff\xff\x7f", b"\x80" * 9]
)
def test_damaged_positions_are_a_bad_body(positions: bytes) -> None:
    asking = ConfluentRegistry(RegistryAddress("http://unused"))
    asking._schemas[5] = RegisteredSchema(5, PROTOBUF, "")
    with pytest.raises(UnfitBody, match="positions of its message are damaged"):
        asking.read(b"\0\0\0\0\5" + positions)


def made() -> object:
    return "a registry"


def refused() -> object:
    raise SystemError("no")


def test_a_registry_of_another_kind_is_made_by_its_factory() -> None:
    assert registry_at(RegistryAddress("tests.bodies.test_confluent:made")) == "a registry"
    for address, why in (
        ("ftp://x", "is neither an address"),
        ("tests.bodies.test_confluent", "is neither an address"),
        ("tests.nowhere:made", "ModuleNotFoundError"),
        ("tests.bodies.test_confluent:absent", "AttributeError"),
        ("tests.bodies.test_confluent:refused", "SystemError: no"),
    ):
        with pytest.raises(RegistryError, match=why):
            registry_at(RegistryAddress(address))
