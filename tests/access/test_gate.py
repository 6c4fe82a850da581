"""Who is let in: signatures first, then permissions (docs/protocol/acl.md 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bolide.access.gate import Gate, Rules, address_of
from bolide.access.options import FullUsers
from bolide.access.policies import AclInfo, Acls, EntryInfo, PolicyInfo, merged, policies_of
from bolide.access.users import Credentials, User, Users, UserStatus, UserType
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE, VERSION_4_9_3, VERSION_5_5_0
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from bolide.remoting.permit import Permit
from bolide.remoting.request_access import PUBLISH, SIGNED_UPDATE, VIEW, Access
from bolide.remoting.signature import sign_request

REMOTE = "127.0.0.1:4567"
ALICE = Credentials("alice", "alicepw")
ROOT = Credentials("root", "rootpw")
SEND = {"a": "pg", "b": "T1", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
OPEN = Rules(False, False, frozenset(), frozenset(), "DefaultCluster")
CLOSED = replace(OPEN, authorization=True)


@dataclass(frozen=True)
class Row:
    header: type[Header] | None
    access: Access | None


ROWS = {
    310: Row(SendMessageRequestHeaderV2, PUBLISH),
    28: Row(None, Access()),
    25: Row(None, SIGNED_UPDATE),
    33: Row(None, VIEW),
    77: Row(None, None),
}


def gate(rules: Rules = CLOSED, allowed: str = "", decision: str = "Allow") -> Gate:
    users, acls = Users(), Acls()
    users.put(User("root", "rootpw", UserType.SUPER))
    users.put(User("alice", "alicepw"))
    users.put(User("gone", "gonepw", status=UserStatus.DISABLE))
    if allowed:
        info = AclInfo(None, [PolicyInfo(None, [EntryInfo(allowed, ["Pub", "Update"], None, decision)])])
        acls.put("alice", merged({}, policies_of(info)))
    return Gate(users, acls, ROWS, rules)


def sent(who: Credentials | None = None, code: int = 310, serialize_type: int = JSON_TYPE) -> Command:
    """A request as it comes out of the connection of a broker."""
    ext = dict(SEND) if code == 310 else {}
    request = make_request(code, 1, ext, b"body", serialize_type=serialize_type)
    if who is not None:
        who.sign(request)
    return received(request)


def received(request: Command) -> Command:
    connection = FramedConnection(1 << 20, 1 << 20)
    (command,) = connection.receive(encode(request))
    return command


@pytest.mark.parametrize("serialize_type", [JSON_TYPE, BINARY_TYPE])
@pytest.mark.parametrize(
    ("who", "why"),
    [
        (None, "username cannot be null."),
        (Credentials("nobody", "x"), "User:nobody is not found."),
        (Credentials("gone", "gonepw"), "User:gone is disabled."),
        (Credentials("alice", "wrong"), "check signature failed."),
        (ALICE, None),
        (ROOT, None),
    ],
)
def test_authentication_decides_by_credentials(who: Credentials | None, why: str | None, serialize_type: int) -> None:
    assert gate(OPEN).refusal(REMOTE, sent(who, serialize_type=serialize_type)) == why


def test_a_name_without_a_signature_is_not_enough() -> None:
    request = received(make_request(310, 1, {**SEND, "AccessKey": "root"}))
    assert gate(OPEN).refusal(REMOTE, request) == "check signature failed."


@pytest.mark.parametrize("change", [("b", "T2"), ("AccessKey", "root"), ("more", "1"), ("SecurityToken", "t")])
def test_signed_request_cannot_be_changed(change: tuple[str, str]) -> None:
    request = make_request(310, 1, dict(SEND), b"body")
    ALICE.sign(request)
    request.ext()[change[0]] = change[1]
    assert gate(OPEN).refusal(REMOTE, received(request)) == "check signature failed."


def test_the_body_is_signed() -> None:
    request = make_request(310, 1, dict(SEND), b"body")
    ALICE.sign(request)
    request.body = b"Body"
    assert gate(OPEN).refusal(REMOTE, received(request)) == "check signature failed."


@pytest.mark.parametrize(("version", "taken"), [(VERSION_4_9_3, True), (VERSION_5_5_0, False)])
def test_a_field_that_old_clients_do_not_sign(version: int, taken: bool) -> None:
    request = make_request(310, 1, dict(SEND), b"body", version=version)
    sign_request(request.ext(), b"body", "alice", "alicepw")
    request.ext()["_UNIQUE_KEY_QUERY"] = "true"
    assert (gate(OPEN).refusal(REMOTE, received(request)) is None) is taken


@given(
    st.dictionaries(st.text(), st.text(), max_size=4), st.binary(max_size=20), st.sampled_from([JSON_TYPE, BINARY_TYPE])
)
def test_only_the_secret_signs(fields: dict[str, str], body: bytes, serialize_type: int) -> None:
    fields = {name: value for name, value in fields.items() if (name and value) or serialize_type == JSON_TYPE}
    for who, why in ((ALICE, None), (Credentials("alice", "other"), "check signature failed.")):
        request = make_request(99, 1, dict(fields), body, serialize_type=serialize_type)
        who.sign(request)
        assert gate(OPEN).refusal(REMOTE, received(request)) == why


def java_signed(code: int = 310) -> Command:
    """A request as a client of RocketMQ signs it."""
    request = make_request(code, 1, dict(SEND), b"body")
    sign_request(request.ext(), b"body", "alice", "alicepw")
    return received(request)


def test_a_signature_of_rocketmq_is_enough_unless_the_user_must_sign_in_full() -> None:
    assert gate(OPEN).refusal(REMOTE, java_signed()) is None
    for names in (frozenset({"alice"}), frozenset({"*"})):
        full = gate(replace(OPEN, full_users=FullUsers(names)))
        assert (full.refusal(REMOTE, java_signed()) or "").startswith("User:alice must sign in full: ")
        assert full.refusal(REMOTE, sent(ALICE)) is None
    assert gate(replace(OPEN, full_users=FullUsers(frozenset({"root"})))).refusal(REMOTE, java_signed()) is None


def test_a_full_signature_is_of_no_other_request() -> None:
    recorded = make_request(310, 1, dict(SEND), b"body")
    ALICE.sign(recorded)
    recorded.code = 215
    assert gate(OPEN).refusal(REMOTE, received(recorded)) == "check signature failed."
    moved = make_request(310, 1, dict(SEND), b"body")
    ALICE.sign(moved)
    moved.ext().update(a="pgT1", b="")  # RocketMQ's content is the same
    assert gate(OPEN).refusal(REMOTE, received(moved)) == "check signature failed."


NO_POLICY = "User:alice has no permission to access Topic:T1 from 127.0.0.1, no matched policies."
DENIED = "User:alice has no permission to access Topic:T1 from 127.0.0.1, the decision is deny."


@pytest.mark.parametrize(
    ("allowed", "decision", "why"),
    [("", "", NO_POLICY), ("Topic:T1", "Allow", None), ("Topic:T1", "Deny", DENIED), ("Topic:X", "Allow", NO_POLICY)],
)
def test_policy_decides_for_user(allowed: str, decision: str, why: str | None) -> None:
    assert gate(allowed=allowed, decision=decision).refusal(REMOTE, sent(ALICE)) == why


def test_a_super_user_may_everything() -> None:
    assert [gate().refusal(REMOTE, sent(ROOT, code)) for code in (310, 25, 28, 77)] == [None] * 4


def test_an_unknown_code_needs_a_signature_and_no_permission() -> None:
    assert gate().refusal(REMOTE, sent(None, 9999)) == "username cannot be null."
    assert gate().refusal(REMOTE, sent(ALICE, 9999)) is None


def test_a_row_that_asks_for_nothing_in_particular_lets_nobody_in() -> None:
    assert gate().refusal(REMOTE, sent(ALICE, 77)) == "parse authorization context error."


def test_unreadable_request_is_rejected() -> None:
    request = make_request(310, 1, {"a": "pg"})
    ALICE.sign(request)
    assert gate(allowed="Topic:*").refusal(REMOTE, received(request)) == "parse authorization context error."


def test_strict_brokers_ask_where_rocketmq_does_not() -> None:
    strict = replace(CLOSED, strict=True)
    why = "User:alice has no permission to access Cluster:DefaultCluster from 127.0.0.1, no matched policies."
    assert gate().refusal(REMOTE, sent(ALICE, 25)) is None
    assert gate(strict).refusal(REMOTE, sent(ALICE, 25)) == why
    assert gate(strict, "Cluster:DefaultCluster").refusal(REMOTE, sent(ALICE, 25)) is None
    assert gate(strict).refusal(REMOTE, sent(ALICE, 28)) is None


def test_codes_that_need_no_signature() -> None:
    rules = replace(CLOSED, unsigned_codes=frozenset({28, 310}))
    assert gate(rules).refusal(REMOTE, sent(None, 28)) is None
    # A permission is given to who signed, not to who uses a name.
    assert gate(rules).refusal(REMOTE, sent(None)) == "username cannot be null."
    claimed = received(make_request(310, 1, {**SEND, "AccessKey": "root"}))
    assert gate(rules).refusal(REMOTE, claimed) == "check signature failed."
    assert gate(replace(rules, free_codes=frozenset({310}))).refusal(REMOTE, sent(None)) is None
    assert gate(rules, "Topic:T1").refusal(REMOTE, sent(ALICE)) is None
    assert gate(rules).refusal(REMOTE, sent(ROOT)) is None


def test_codes_that_need_no_permission() -> None:
    rules = replace(CLOSED, free_codes=frozenset({310}))
    assert gate(rules).refusal(REMOTE, sent(ALICE)) is None
    assert gate(rules).refusal(REMOTE, sent(Credentials("alice", "wrong"))) == "check signature failed."


def permit(rules: Rules = CLOSED, who: Credentials = ALICE, allowed: str = "Topic:T1") -> Permit | None:
    """What the gate leaves with a request that looks at a message by its offset."""
    users, acls = Users(), Acls()
    users.put(User("root", "rootpw", UserType.SUPER))
    users.put(User("alice", "alicepw"))
    info = AclInfo(None, [PolicyInfo(None, [EntryInfo(allowed, ["Get"], None, "Allow")])])
    acls.put("alice", merged({}, policies_of(info)))
    command = sent(who, 33)
    assert Gate(users, acls, ROWS, rules).refusal(REMOTE, command) is None
    return command.permit


def test_permit_compares_found_resources_with_policies() -> None:
    found = permit()
    assert found is not None and found.denial == 16
    assert found.refusal(["T1"]) is None and found.refusal(["T2", "T1"]) is None
    assert found.refusal(["T2", "T3"]) == NO_POLICY.replace("T1", "T2")
    assert found.refusal(["%RETRY%g"]) == NO_POLICY.replace("Topic:T1", "Group:g")
    assert found.refusal([]) == "parse authorization context error."
    in_group = permit(allowed="Group:g")
    assert in_group is not None and in_group.refusal(["%RETRY%g"]) is None
    of_root = permit(who=ROOT)
    assert of_root is not None and of_root.refusal(["T2"]) is None


def test_permit_is_absent_for_free_codes() -> None:
    assert permit(OPEN) is None
    assert permit(replace(CLOSED, free_codes=frozenset({33}))) is None


def test_found_resources_need_a_signature_for_unsigned_codes() -> None:
    rules = replace(CLOSED, unsigned_codes=frozenset({33}))
    assert gate(rules).refusal(REMOTE, sent(None, 33)) == "username cannot be null."


@pytest.mark.parametrize(
    ("remote", "address"),
    [("127.0.0.1:1", "127.0.0.1"), ("::1:1", "::1"), ("::ffff:10.0.0.1:5", "10.0.0.1"), ("fe80::1:80", "fe80::1")],
)
def test_the_address_of_a_peer(remote: str, address: str) -> None:
    assert address_of(remote) == address
