"""Files and decisions of ACL 1 (docs/protocol/acl.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bolide.access.options import FullUsers
from bolide.access.plain_accounts import BadAccounts, Perm, read_accounts
from bolide.access.plain_gate import EXCEPTION, PlainGate
from bolide.access.users import Credentials
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE, VERSION_4_9_3, VERSION_5_5_0
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from bolide.remoting.headers.topics import CreateTopicRequestHeader
from bolide.remoting.request_access import (
    ADMINISTER,
    CREATE_TOPIC,
    END,
    HEARTBEAT,
    PUBLISH,
    PUBLISH_BATCH,
    PUBLISH_V1,
    RESUME,
    SEND_BACK,
    VIEW,
    Access,
)
from bolide.remoting.signature import sign_request

REMOTE = "10.1.2.3:4567"
FILE = b"""
globalWhiteRemoteAddresses: [10.9.9.*]
accounts:
- accessKey: seller1
  secretKey: 12345678
  whiteRemoteAddress: 192.168.0.*
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB
  - both = SUB|PUB
  groupPerms:
  - other=DENY
- accessKey: manager
  secretKey: "87654321"
  admin: true
- accessKey: limited
  secretKey: "87654321"
  admin: true
  topicPerms: [orders=SUB]
dataVersion:
- {counter: 2, timestamp: 1795331393752}
"""
SELLER, MANAGER, LIMITED = (
    Credentials("seller1", "12345678"),
    Credentials("manager", "87654321"),
    Credentials("limited", "87654321"),
)
SEND = {"a": "pg", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}


@dataclass(frozen=True)
class Row:
    header: type[Header] | None
    access: Access | None


ROWS = {
    10: Row(SendMessageRequestHeader, PUBLISH_V1),
    310: Row(SendMessageRequestHeaderV2, PUBLISH),
    320: Row(SendMessageRequestHeaderV2, PUBLISH_BATCH),
    17: Row(CreateTopicRequestHeader, CREATE_TOPIC),
    25: Row(None, ADMINISTER),
    34: Row(None, HEARTBEAT),
    318: Row(None, None),
}


def refusal(
    who: Credentials | None,
    topic: str = "orders",
    code: int = 310,
    *,
    remote: str = REMOTE,
    group: str = "pg",
    strict: bool = False,
    kind: int = JSON_TYPE,
    body: bytes = b"body",
    file: bytes = FILE,
) -> str | None:
    fields = {**SEND, "a": group, "b": topic} if code in (310, 320) else {}
    request = make_request(code, 1, fields, body, serialize_type=kind)
    if who is not None:
        who.sign(request)
    found = PlainGate(read_accounts([("plain_acl.yml", file)]), ROWS, strict).refusal(remote, received(request))
    return found and found.removeprefix("org.apache.rocketmq.acl.common.AclException: ")


def received(request: Command) -> Command:
    (command,) = FramedConnection(1 << 20, 1 << 20).receive(encode(request))
    return command


@pytest.mark.parametrize("kind", [JSON_TYPE, BINARY_TYPE])
@pytest.mark.parametrize(
    ("who", "remote", "why"),
    [
        (None, REMOTE, "No accessKey is configured"),
        (None, "10.9.9.7:1", None),
        (Credentials("nobody1", "12345678"), REMOTE, "No acl config for nobody1"),
        (Credentials("seller1", "guessed"), REMOTE, "Check signature failed for accessKey=seller1"),
        (Credentials("seller1", "guessed"), "192.168.0.4:1", None),
        (Credentials("seller1", "guessed"), "::ffff:192.168.0.4:1", None),
        (SELLER, REMOTE, None),
    ],
)
def test_account_is_admitted_by_key_and_address(
    who: Credentials | None, remote: str, why: str | None, kind: int
) -> None:
    assert refusal(who, remote=remote, kind=kind) == why


@pytest.mark.parametrize(
    ("who", "topic", "group", "why"),
    [
        (SELLER, "orders", "pg", None),
        (SELLER, "both", "pg", None),
        (SELLER, "Orders", "pg", "No default permission for topic:Orders"),
        (SELLER, "RMQ_SYS_TRACE_TOPIC", "pg", None),
        (SELLER, "%RETRY%other", "any", None),
        (SELLER, "%RETRY%any", "other", "No default permission for group:other"),
        (MANAGER, "Orders", "pg", None),
        (LIMITED, "orders", "pg", "No default permission for topic:orders"),
    ],
)
def test_sends(who: Credentials, topic: str, group: str, why: str | None) -> None:
    assert refusal(who, topic, group=group) == why


def test_a_send_to_a_retry_topic_is_bound_to_its_group_where_it_is_strict() -> None:
    assert refusal(SELLER, "%RETRY%other", group="any", strict=True) == "No default permission for group:other"
    assert refusal(SELLER, "%RETRY%any", group="other", strict=True) is None


@pytest.mark.parametrize(("code", "by_strict"), [(17, False), (25, False), (318, True)])
def test_administrative_code_needs_an_admin(code: int, by_strict: bool) -> None:
    why = f"Need admin permission for request code={code}, but accessKey=seller1 is not"
    assert refusal(SELLER, code=code) == (None if by_strict else why)
    assert refusal(SELLER, code=code, strict=True) == why
    assert refusal(MANAGER, code=code, strict=True) is None


def test_batches_are_free_where_rocketmq_lets_them_through() -> None:
    assert refusal(SELLER, "Orders", code=320) is None
    assert refusal(SELLER, "Orders", code=320, strict=True) == "No default permission for topic:Orders"


@pytest.mark.parametrize(
    ("group", "topic", "why"),
    [
        ("any", "both", None),
        ("any", "orders", "No default permission for topic:orders"),
        ("other", "both", "No default permission for group:other"),
    ],
)
def test_heartbeats(group: str, topic: str, why: str | None) -> None:
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    consumer = {"groupName": group, "subscriptionDataSet": [subscription], "unitMode": False}
    data = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": [consumer]}
    assert refusal(SELLER, code=34, body=encode_body(data)) == why


@pytest.mark.parametrize("version", [VERSION_4_9_3, VERSION_5_5_0])
def test_the_unique_key_of_a_query_is_signed_or_not(version: int) -> None:
    gate = PlainGate(read_accounts([("plain_acl.yml", FILE)]), ROWS, False)
    signed, unsigned = make_request(12, 1, {"_UNIQUE_KEY_QUERY": "true"}), make_request(12, 1, {})
    for request in (signed, unsigned):
        sign_request(request.ext(), b"", "seller1", "12345678")
    unsigned.ext()["_UNIQUE_KEY_QUERY"] = "true"
    for request in (unsigned, *([signed] if version > VERSION_4_9_3 else [])):
        request.version = version
        assert gate.refusal(REMOTE, received(request)) is None
    unsigned.ext()["topic"] = "other"
    assert gate.refusal(REMOTE, received(unsigned)) is not None


def test_the_first_of_two_accounts_with_a_key_counts() -> None:
    other = b"accounts: [{accessKey: seller1, secretKey: another1}]"
    accounts = read_accounts([("a.yml", other), ("plain_acl.yml", FILE)])
    assert (accounts.by_key["seller1"].secret, accounts.twice) == ("another1", ("seller1",))
    assert "another1" not in repr(accounts)


def test_an_empty_file_lets_nobody_in() -> None:
    assert refusal(MANAGER, file=b"") == "No acl config for manager"


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (b"accounts: [", "is not valid YAML at line 1"),
        (b'accounts:\n- accessKey: seller1\n  secretKey: "secret-of-s', "is not valid YAML at line 3"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"[" * 2000, "is not valid YAML"),
        (b"- a", "is not a table"),
        (b"accounts: {}\nacounts: {}", "unknown keys 'acounts'"),
        (b"accounts: text", "accounts is not a list"),
        (b"accounts: [text]", "account 1: it is not a table"),
        (b"accounts: [{accessKey: short, secretKey: secret-of-s}]", "must be longer than 6 characters"),
        (b"accounts: [{accessKey: seller1}]", "must be longer than 6 characters"),
        (b"accounts: [{accessKey: seller1, secretKey: [secret-of-s]}]", "secretKey is not a text"),
        (b"accounts: [{accessKey: seller1, secretKey: secret-of-s, admin: perhaps}]", "admin must be true or false"),
        (b"accounts: [{accessKey: seller1, secretKey: secret-of-s, topicPerm: [a=PUB]}]", "unknown keys 'topicPerm'"),
        (b"accounts: [{accessKey: seller1, secretKey: secret-of-s, topicPerms: [a=b=SUB]}]", "is not name=permission"),
        (b"accounts: [{accessKey: seller1, secretKey: secret-of-s, topicPerms: a=PUB}]", "topicPerms is not a list"),
        (b"accounts: [{accessKey: seller1, secretKey: secret-of-s, groupPerms: [[]]}]", "is not a list of texts"),
        (b"globalWhiteRemoteAddresses: [10.0.0.0/8]", "'10.0.0.0/8' is not an address or a range of addresses"),
        (b"#" * ((1 << 20) + 1), "has more than"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_taken_is_refused_without_its_secrets(file: bytes, why: str) -> None:
    with pytest.raises(BadAccounts) as refused:
        read_accounts([("plain_acl.yml", file)])
    assert why in str(refused.value)
    assert "secret-of-s" not in str(refused.value)


@pytest.mark.parametrize("after", [b"\t", b" \t ", b"\t# the key", b"   "])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_blanks_and_tabs_after_a_value_are_not_part_of_it(after: bytes, end: bytes) -> None:
    data = FILE.replace(b"12345678\n", b"12345678" + after + b"\n").replace(b"=PUB\n", b"=PUB" + after + b"\n")
    accounts = read_accounts([("f", data.replace(b"\n", end))])
    assert accounts.by_key["seller1"].secret == "12345678"
    assert accounts.by_key["seller1"].perms["orders"] is Perm.PUB


def test_tab_within_a_value_is_part_of_it() -> None:
    accounts = read_accounts([("f", FILE.replace(b"12345678", b"1234 \t5678"))])
    assert accounts.by_key["seller1"].secret == "1234 \t5678"


def test_tab_as_indentation_is_rejected() -> None:
    with pytest.raises(BadAccounts, match="f is not valid YAML at line"):
        read_accounts([("f", FILE.replace(b"  secretKey", b"\tsecretKey"))])


FOUND = {
    33: Row(None, VIEW),
    36: Row(None, SEND_BACK),
    37: Row(None, END),
    323: Row(None, RESUME),
}


def found(who: Credentials, code: int, topics: list[str], *, strict: bool, remote: str = REMOTE) -> str | None:
    """What a handler hears that asks about these topics; None when nothing is refused."""
    request = make_request(code, 1, {})
    who.sign(request)
    command = received(request)
    assert PlainGate(read_accounts([("plain_acl.yml", FILE)]), FOUND, strict).refusal(remote, command) is None
    if command.permit is None:
        return None
    assert command.permit.denial == 1
    why = command.permit.refusal(topics)
    return why and why.removeprefix("org.apache.rocketmq.acl.common.AclException: ")


@pytest.mark.parametrize(
    ("who", "code", "topics", "why"),
    [
        (SELLER, 36, ["both"], None),
        (SELLER, 36, ["orders"], "No default permission for topic:orders"),
        (SELLER, 36, ["%RETRY%mine"], None),
        (SELLER, 36, ["%RETRY%other"], "No default permission for group:other"),
        (SELLER, 33, ["both"], None),
        (SELLER, 33, ["orders", "both"], None),
        (SELLER, 33, ["orders", "secret"], "No default permission for topic:orders"),
        (SELLER, 33, [], "parse authorization context error."),
        (SELLER, 37, ["orders"], None),
        (SELLER, 37, ["secret"], "No default permission for topic:secret"),
        (SELLER, 323, ["both"], "Need admin permission, but accessKey=seller1 is not"),
        (MANAGER, 33, ["secret"], None),
        (MANAGER, 323, ["secret"], None),
        (LIMITED, 323, ["secret"], None),
        (LIMITED, 33, ["orders"], None),
        (LIMITED, 33, ["secret"], "No default permission for topic:secret"),
    ],
)
def test_permit_compares_found_topics_with_account(
    who: Credentials, code: int, topics: list[str], why: str | None
) -> None:
    assert found(who, code, topics, strict=True) == why


def test_a_code_that_asks_for_nothing_in_4_9_asks_for_nothing_that_it_finds() -> None:
    assert [found(SELLER, code, ["secret"], strict=False) for code in (33, 37, 323)] == [None] * 3
    assert found(SELLER, 36, ["secret"], strict=False) == "No default permission for topic:secret"
    assert found(SELLER, 36, ["secret"], strict=True, remote="192.168.0.4:1") is None


def test_an_account_that_is_gone_may_nothing_any_more() -> None:
    request = make_request(36, 1, {})
    SELLER.sign(request)
    command = received(request)
    gate = PlainGate(read_accounts([("plain_acl.yml", FILE)]), FOUND, False)
    assert gate.refusal(REMOTE, command) is None and command.permit is not None
    assert command.permit.refusal(["both"]) is None
    gate.accounts = read_accounts([("plain_acl.yml", b"accounts: []")])
    assert command.permit.refusal(["both"]) == f"{EXCEPTION}No acl config for seller1"


def test_a_full_signature_is_checked_and_may_be_required() -> None:
    accounts = read_accounts([("plain_acl.yml", FILE)])
    full = PlainGate(accounts, FOUND, False, FullUsers(frozenset({"seller1"})))
    java = make_request(33, 1, {})
    sign_request(java.ext(), b"", "seller1", "12345678")
    assert PlainGate(accounts, FOUND, False).refusal(REMOTE, received(java)) is None
    assert (full.refusal(REMOTE, received(java)) or "").startswith(f"{EXCEPTION}accessKey=seller1 must sign in full: ")
    ours = make_request(33, 1, {})
    SELLER.sign(ours)
    assert full.refusal(REMOTE, received(ours)) is None
    ours.code = 36
    why = f"{EXCEPTION}Check signature failed for accessKey=seller1"
    assert PlainGate(accounts, FOUND, False).refusal(REMOTE, received(ours)) == why
