"""What every row asks for, against the table of docs/protocol/acl.md 5."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bolide.remoting.command import make_request
from bolide.remoting.errors import BodyError, HeaderError
from bolide.remoting.request_access import HEARTBEAT, PUBLISH, Access, Asked
from tests.remoting.sample_requests import BODIES, FIELDS, HEART, LOCKS, rows

ASKED = {
    "Topic:T Pub": (10, 310, 320, 370, 37),
    "Group:G Sub": (36, 35),
    "Topic:T Sub, Group:G Sub": (11,),
    "Topic:T Sub|Get": (12,),
    "Group:G Sub, Topic:T Sub, Group:H Sub": (34,),
    "Group:G Sub|Get": (38,),
    "Topic:T Sub|Get, Group:G Sub|Get": (14,),
    "Topic:T Sub|Update, Group:G Sub|Update": (15,),
    "Group:G Sub, Topic:T Sub": (41, 42, 309),
    "Topic:T Create": (17,),
    "Topic:T Delete": (215,),
    "Group:G Delete": (207,),
    "Group:G Update, Topic:T Update": (222, 353),
    "Group:D Update, Topic:T Update": (314,),
    "Topic:T Update": (323,),
    "Topic:T Get": (29, 30, 31, 32, 33, 202, 300, 351),
    "Group:G Get": (203, 307, 343, 352),
    "Group:G Get, Topic:T Get, Topic:T2 Get, Topic:T3 Get": (208,),
    "Group:G Get, Topic:T Get": (345,),
    "Topic:T Get, Group:G Get": (223, 303, 321),
    "Group:F1 Get, Group:F2 Get, Group:G Get, Topic:T Get": (308,),
    "Cluster: Get": (204, 315, 317, 328, 355, 3004, 3005, 3009, 3010),
    "Cluster: Update": (905, 906, 908, 1008, 3001, 3002, 3003, 3006, 3007, 3008),
    "": (
        25,
        26,
        28,
        27,
        200,
        225,
        18,
        21,
        43,
        45,
        46,
        60,
        61,
        201,
        305,
        306,
        316,
        324,
        325,
        329,
        361,
        400,
        401,
        402,
        907,
        1007,
        5001,
    ),
}
STRICT = {
    "Cluster: Update": (25, 27, 200, 225, 18, 306, 316, 329, 401, 5001),
    "Cluster: Get": (26, 28, 21, 43, 45, 60, 61, 201, 305, 402, 907, 1007),
    "Topic:T Pub": (10, 310, 320, 324, 325),
    "Topic:T Sub, Group:G Sub": (361,),
    "Group:G Sub, Topic:T Sub": (46, 400),
    "Group:D Update, Topic:T Update, Group:S Get": (314,),
}


def text(asked: list[Asked]) -> str:
    return ", ".join(
        f"{one.kind.name.capitalize()}:{one.name} {'|'.join(action.name.capitalize() for action in one.actions)}"
        for one in asked
    )


def asked_things(code: int, access: Access, **fields: str) -> list[Asked]:
    body = json.dumps(BODIES[code]).encode() if code in BODIES else b""
    return access.asked(make_request(code, 0, {**FIELDS, **fields}, body), rows()[code].header)


def asked_by(code: int, access: Access | None, **fields: str) -> str:
    assert access is not None
    return text(asked_things(code, access, **fields))


def test_every_row_says_what_it_asks_for() -> None:
    listed = [code for codes in ASKED.values() for code in codes]
    assert sorted(listed) == sorted(rows())
    assert [code for code, row in rows().items() if row.access is None] == []


@pytest.mark.parametrize(("wanted", "code"), [(wanted, code) for wanted, codes in ASKED.items() for code in codes])
def test_a_row_asks_as_rocketmq_does(wanted: str, code: int) -> None:
    assert asked_by(code, rows()[code].access) == wanted


@pytest.mark.parametrize(("wanted", "code"), [(wanted, code) for wanted, codes in STRICT.items() for code in codes])
def test_a_strict_broker_asks_for_more(wanted: str, code: int) -> None:
    access = rows()[code].access
    assert access is not None and asked_by(code, access.strict or access) == wanted


def test_only_listed_codes_are_strict() -> None:
    listed = {code for codes in STRICT.values() for code in codes}
    assert {code for code, row in rows().items() if row.access is not None and row.access.strict} == listed


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (10, "Group:G Sub"),
        (11, "Group:G Sub"),
        (12, "Topic:%RETRY%G Sub|Get"),
        (14, "Group:G Sub|Get"),
        (15, "Group:G Sub|Update"),
        (17, "Group:G Create"),
        (33, "Group:G Get"),
        (37, "Topic:%RETRY%G Pub"),
        (370, "Topic:%RETRY%G Pub"),
        (310, "Group:G Sub"),
        (320, "Group:G Sub"),
    ],
)
def test_a_retry_topic_is_its_group(code: int, wanted: str) -> None:
    assert asked_by(code, rows()[code].access, topic="%RETRY%G", b="%RETRY%G") == wanted


def test_a_dead_letter_topic_is_a_topic() -> None:
    assert asked_by(11, rows()[11].access, topic="%DLQ%G") == "Topic:%DLQ%G Sub, Group:G Sub"


@pytest.mark.parametrize("code", [35, 37, 33])
def test_missing_field_needs_no_permission(code: int) -> None:
    assert asked_by(code, rows()[code].access, consumerGroup="", topic="") == ""


@pytest.mark.parametrize("code", [11, 14, 15, 361])
def test_the_retry_topic_of_another_group_is_that_group(code: int) -> None:
    access = rows()[code].access
    assert access is not None
    groups = {asked.name for asked in asked_things(code, access.strict or access, topic="%RETRY%victim")}
    assert groups == {"victim", "G"}


@pytest.mark.parametrize(("code", "body"), [(34, HEART), (41, LOCKS), (42, LOCKS)])
def test_bodies_name_retry_topics_too(code: int, body: Any) -> None:
    foreign = json.loads(json.dumps(body).replace('"T"', '"%RETRY%victim"'))
    access = rows()[code].access
    assert access is not None
    assert "Group:victim Sub" in text(access.asked(make_request(code, 0, {}, json.dumps(foreign).encode()), None))


PLACES = frozenset(
    "offset msg_id offset_msg_id unique_msg_id origin_msg_id commit_log_offset transaction_id key recall_handle "
    "properties src_group tran_state_table_offset".split()
)
"""Fields of headers that lead to something stored whose topic the request does not name."""
FOUND = {
    "Sub": (36, 309),
    "Get": (33,),
    "Sub|Get": (12,),
    "Pub": (34, 37),
    "Update": (314, 323),
}
STRICTLY_FOUND = {"Pub": (10, 310, 320, 324, 325)}
NOT_FOUND = {
    222: "the offset is one of the queue that the request names",
    15: "the offset is one of the queue that the request names",
    370: "the handle must name the topic of the request, and a delete counts for its own topic only",
}


def found_by(code: int, strict: bool) -> str:
    access = rows()[code].access
    assert access is not None
    chosen = access.strict if strict and access.strict is not None else access
    return "" if chosen.found is None else "|".join(action.name.capitalize() for action in chosen.found.actions)


def test_every_row_says_what_it_asks_of_what_it_finds() -> None:
    wanted = {code: actions for actions, codes in FOUND.items() for code in codes}
    strict = wanted | {code: actions for actions, codes in STRICTLY_FOUND.items() for code in codes}
    for code in rows():
        assert found_by(code, strict=False) == wanted.get(code, ""), code
        assert found_by(code, strict=True) == strict.get(code, ""), code


def test_codes_with_a_place_check_found_resources() -> None:
    for code, row in rows().items():
        leads = row.header is not None and PLACES & set(row.header.__struct_fields__)
        if leads and code not in NOT_FOUND:
            assert found_by(code, strict=True), f"{code} finds something by {leads}"
    assert all(not found_by(code, strict=True) for code in NOT_FOUND)


def test_access_check_reads_the_field_of_the_handler() -> None:
    # The long name is not that of a header with short ones: it must not be looked at in its place.
    request = make_request(310, 0, {**FIELDS, "topic": "allowed", "b": "wanted"})
    assert text(PUBLISH.asked(request, rows()[310].header)) == "Topic:wanted Pub"


def test_unreadable_request_is_rejected() -> None:
    with pytest.raises(HeaderError):
        PUBLISH.asked(make_request(310, 0, {"a": "pg"}), rows()[310].header)
    with pytest.raises(BodyError):
        HEARTBEAT.asked(make_request(34, 0, {}, b"{"), None)
