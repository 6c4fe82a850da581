"""Decisions of ACL 1 about every code of a broker, against the table of docs/protocol/acl.md 2.

Each account lacks one permission: if its request is rejected, the request needs that permission.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from bolide.access.plain_accounts import Accounts, read_accounts
from bolide.access.plain_gate import PlainGate
from bolide.access.users import Credentials
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.connection import FramedConnection
from tests.remoting.sample_requests import BODIES, FIELDS, rows

REMOTE = "10.1.2.3:4567"
NAMES = ("T", "T2", "T3", "%RETRY%R", "G", "H", "D", "S", "F1", "F2", "pg")
"""Topics and groups of `FIELDS` and `BODIES`."""
ADMIN = "admin"
NEEDS = {
    ADMIN: (17, 25, 200, 207, 215),
    "T PUB": (10, 310),
    "T SUB": (12,),
    "T SUB, G SUB": (11, 15),
    "T SUB, G SUB, H SUB": (34,),
    "G SUB": (35, 36, 38),
}
"""Codes that need more than a signature."""
STRICT = {
    **NEEDS,
    ADMIN: (
        *(17, 25, 200, 207, 215),
        *(18, 21, 26, 27, 28, 43, 45, 60, 61, 201, 204, 225, 305, 306, 315, 316, 317, 328, 329, 355, 401, 402),
        *(905, 906, 907, 908, 1007, 1008, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010, 5001),
    ),
    "T PUB": (10, 310, 320),
    "T SUB, G SUB": (11, 15, 361),
}
"""With authorizationStrict."""
OF_RETRY_TOPIC = {11: "R SUB, G SUB", 12: "R SUB", 15: "R SUB, G SUB", 310: "pg SUB", 10: "", 320: "", 361: ""}
"""Permissions needed for the topic %RETRY%R. In 4.9 a send in the old form and a batch need none, and a send in the new
form needs the group of its producer."""
OF_RETRY_TOPIC_STRICT = {**dict.fromkeys((10, 310, 320), "R SUB"), 361: "R SUB, G SUB"}
FOUND = {12: "SUB", 34: "PUB", 36: "SUB"}
"""Codes whose handlers check the topics of found records, with the permission needed."""
FOUND_STRICT = {**dict.fromkeys((10, 310, 320, 324, 325, 37), "PUB"), 33: "SUB", 309: "SUB", 314: ADMIN, 323: ADMIN}


def account(key: str, *lines: str) -> str:
    return "\n  ".join((f"- accessKey: account-{key}", "secretKey: secret-1", *lines)) + "\n"


ALL = ("defaultTopicPerm: PUB|SUB", "defaultGroupPerm: PUB|SUB")


def lacking(name: str, perm: str) -> tuple[str, ...]:
    """Lines of an account that may do everything but this."""
    entry = f'["{name}={"SUB" if perm == "PUB" else "PUB"}"]'
    topic = name.startswith(("T", "%"))
    return (*ALL, f"{'topicPerms' if topic else 'groupPerms'}: {entry}")


LACKING = {f"{name.removeprefix('%RETRY%')} {perm}": lacking(name, perm) for name in NAMES for perm in ("PUB", "SUB")}


@cache
def accounts() -> Accounts:
    text = "accounts:\n" + account("all", *ALL) + account("nothing") + account("admin", "admin: true")
    text += account("narrow", "admin: true", "topicPerms: [orders=SUB]")
    text += account("trusted", "whiteRemoteAddress: 10.1.2.3")
    text += "".join(account(f"{number}", *lines) for number, lines in enumerate(LACKING.values()))
    return read_accounts([("plain_acl.yml", text.encode())])


def refusal(code: int, key: str, strict: bool, secret: str = "secret-1", **fields: str) -> tuple[str | None, Command]:
    body = json.dumps(BODIES[code]).encode() if code in BODIES else b""
    request = Credentials(f"account-{key}", secret).sign(make_request(code, 1, {**FIELDS, **fields}, body))
    (received,) = FramedConnection(1 << 20, 1 << 20).receive(encode(request))
    return PlainGate(accounts(), rows(), strict).refusal(REMOTE, received), received


def needs(code: int, strict: bool, **fields: str) -> str:
    why, _ = refusal(code, "all", strict, **fields)
    if why is not None:
        assert f"Need admin permission for request code={code}, but accessKey=account-all is not" in why
        return ADMIN
    found = []
    for number, lacked in enumerate(LACKING):
        why, _ = refusal(code, f"{number}", strict, **fields)
        if why is not None:
            assert f"No default permission for {'topic' if lacked[0] == 'T' else 'group'}:{lacked.split()[0]}" in why
            found.append(lacked)
    return ", ".join(found)


def every_code() -> Iterator[tuple[int, bool]]:
    return ((code, strict) for code in rows() for strict in (False, True))


def by_code(table: dict[str, tuple[int, ...]]) -> dict[int, str]:
    return {code: text for text, codes in table.items() for code in codes}


@pytest.mark.parametrize("strict", [False, True])
def test_each_code_needs_the_permissions_of_rocketmq(strict: bool) -> None:
    assert {code: text for code in rows() if (text := needs(code, strict))} == by_code(STRICT if strict else NEEDS)


@pytest.mark.parametrize("strict", [False, True])
def test_a_retry_topic_needs_the_permission_of_a_group(strict: bool) -> None:
    wanted = {**OF_RETRY_TOPIC, **(OF_RETRY_TOPIC_STRICT if strict else {})}
    assert {code: needs(code, strict, topic="%RETRY%R", b="%RETRY%R") for code in wanted} == wanted


def test_admins_without_entries_may_do_everything() -> None:
    assert [code for code, strict in every_code() if refusal(code, "admin", strict)[0] is not None] == []


def test_admins_with_entries_need_an_entry_for_each_permission() -> None:
    for code, strict in every_code():
        wanted = by_code(STRICT if strict else NEEDS).get(code, ADMIN)
        assert (refusal(code, "narrow", strict)[0] is None) == (wanted == ADMIN), code


def test_accounts_without_permissions_may_do_the_rest() -> None:
    for code, strict in every_code():
        assert (refusal(code, "nothing", strict)[0] is not None) == (code in by_code(STRICT if strict else NEEDS)), code


def test_a_wrong_secret_is_rejected_except_from_a_trusted_address() -> None:
    for code, strict in every_code():
        assert refusal(code, "all", strict, "secret-2")[0] is not None, code
        assert refusal(code, "trusted", strict, "secret-2")[0] is None, code


def test_traces_need_no_permission() -> None:
    for code, strict in ((10, False), (310, False), (10, True), (310, True), (320, True)):
        trace = "RMQ_SYS_TRACE_TOPIC"
        assert refusal(code, "nothing", strict, topic=trace, b=trace)[0] is None
    assert refusal(11, "nothing", False, topic="RMQ_SYS_TRACE_TOPIC")[0] is not None


@pytest.mark.parametrize("strict", [False, True])
def test_found_topics_need_the_permission_of_the_code(strict: bool) -> None:
    found = {}
    for code in rows():
        permit = refusal(code, "admin", strict)[1].permit
        if permit is None:
            continue
        assert permit.refusal(["T2"]) is None
        lacking_t2 = {perm: f"{list(LACKING).index(f'T2 {perm}')}" for perm in ("PUB", "SUB")}
        permits = {perm: refusal(code, key, strict)[1].permit for perm, key in lacking_t2.items()}
        refused = [perm for perm, permit in permits.items() if permit is not None and permit.refusal(["T2"])]
        found[code] = ADMIN if len(refused) == 2 else ", ".join(refused)
    assert found == {**FOUND, **(FOUND_STRICT if strict else {})}
