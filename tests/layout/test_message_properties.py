"""Properties as text and as a mapping say the same, whichever they are made of and however they are changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.message_properties import MessageProperties, stored_properties
from bolide.layout.properties import format_properties, parse_properties
from tests.layout.strategies import PROPERTIES

SEEN = "uniq_key keys tags delay wait transactional timer timer_out inner_batch multi multi_offsets".split()
NAMES = st.sampled_from(
    "UNIQ_KEY KEYS TAGS DELAY WAIT TRAN_MSG TIMER_DELAY_SEC TIMER_OUT_MS INNER_NUM INNER_MULTI_DISPATCH"
    " INNER_MULTI_QUEUE_OFFSET MSG_REGION x".split()
)
PAIRS = st.dictionaries(NAMES, st.sampled_from(["", "true", "false", "3", "a"]))


def seen(properties: MessageProperties) -> tuple[object, ...]:
    properties.scan()
    return tuple(getattr(properties, name) for name in SEEN)


@given(PAIRS)
def test_a_mapping_is_scanned_like_its_text(pairs: dict[str, str]) -> None:
    text = format_properties(pairs)
    assert seen(MessageProperties("", dict(pairs))) == seen(MessageProperties(text))
    assert MessageProperties("", dict(pairs)).text == text


@given(PROPERTIES, PAIRS, st.booleans())
def test_set_property_is_visible_with_and_without_a_scan(raw: bytes, changes: dict[str, str], scanned: bool) -> None:
    changes = {name: value for name, value in changes.items() if value}
    properties = stored_properties(raw)
    if scanned:
        properties.scan()
    for name, value in changes.items():
        properties.set(name, value)
    if changes:
        assert parse_properties(properties.text) == {**parse_properties(raw.decode()), **changes}
        assert seen(properties) == seen(MessageProperties(properties.text))


@given(PROPERTIES, st.booleans(), st.booleans())
def test_appended_property_is_in_text_and_mapping(raw: bytes, parsed: bool, changed: bool) -> None:
    properties = stored_properties(raw)
    if parsed:
        properties.pairs()
    if changed:
        properties.set("first", "1")
    properties.append("added\x012\x02", {"added": "2"})
    properties.extend({"more": "3"})
    expected = {**parse_properties(raw.decode()), **({"first": "1"} if changed else {}), "added": "2", "more": "3"}
    assert properties.pairs() == parse_properties(properties.text) == expected


def test_extending_replaces_what_is_there() -> None:
    properties = MessageProperties("a\x011\x02b\x012\x02")
    properties.extend({"a": "3", "c": "4"})
    assert properties.text == "a\x013\x02b\x012\x02c\x014\x02"


def test_unchanged_properties_keep_their_text() -> None:
    odd = "\x01nameless\x02a\x01\x02a\x011\x02a\x012"
    properties = MessageProperties(odd)
    properties.scan()
    properties.pairs()
    properties.drop("TIMER_DELAY_SEC")
    assert properties.text == odd and properties.rewrite
    properties.terminate()
    properties.terminate()
    assert properties.text == odd + "\x02"
    properties.normalize()
    assert properties.text == "a\x012\x02"


@pytest.mark.parametrize("left", [{}, {"TIMER_DELIVER_MS": "7"}])
def test_a_time_of_delivery_is_dropped(left: dict[str, str]) -> None:
    properties = MessageProperties(
        "TIMER_DELAY_SEC\x013\x02INNER_MULTI_QUEUE_OFFSET\x015\x02" + format_properties(left)
    )
    properties.scan()
    properties.drop("TIMER_DELAY_SEC")
    properties.drop("INNER_MULTI_QUEUE_OFFSET")
    assert (properties.timer, properties.multi_offsets) == (bool(left), False)
    assert properties.text == format_properties(left)


def test_a_message_without_a_key_is_given_one() -> None:
    properties = MessageProperties("a\x011")
    properties.scan()
    properties.add_uniq_key("U")
    assert (properties.uniq_key, properties.text) == ("U", "a\x011\x02UNIQ_KEY\x01U\x02")
