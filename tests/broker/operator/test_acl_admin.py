"""Requests 3006 to 3010 (docs/protocol/acl.md 6)."""

from __future__ import annotations

import json

import pytest

from bolide.access.policies import MOST_ENTRIES, Acls
from bolide.access.users import User, Users
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.operator.acl_admin import NO_BODY, SYSTEM, AclAdminService
from bolide.broker.operator.user_admin import OFF
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, reply_of

ENTRY = {"resource": "Topic:T1", "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": ["127.0.0.1"]}


class Admin:
    """The service with a user alice."""

    def __init__(self, on: bool = True) -> None:
        users = Users()
        users.put(User("alice", "alicepw"))
        self.effects = Effects()
        self.service = AclAdminService(BrokerOptions.of(authentication_enabled=on), users, Acls(), self.effects)

    def ask(self, code: int, body: object = None, **fields: str) -> Command:
        data = b"" if body is None else json.dumps(body).encode()
        request = make_request(code, 1, dict(fields), data)
        return reply_of(self.service.handlers()[code](Channel(1, PEER, "10.1.2.3:4567"), request, NOW))

    def put(self, *entries: dict[str, object], subject: str = "User:alice", kind: str = "Custom") -> Command:
        body = {"policies": [{"policyType": kind, "entries": list(entries)}]}
        return self.ask(codes.AUTH_CREATE_ACL, body, subject=subject)


def test_policies_are_made_shown_and_deleted() -> None:
    admin = Admin()
    made = admin.put(ENTRY, {"resource": "Group:g*", "actions": ["sub"], "decision": "allow"})
    assert (made.code, made.remark, admin.effects.persists) == (0, "not set any response code", {"acls"})
    shown = admin.ask(codes.AUTH_GET_ACL, subject="User:alice")
    assert json.loads(shown.body) == {
        "policies": [
            {
                "entries": [ENTRY, {"actions": ["Sub"], "decision": "Allow", "resource": "Group:g*"}],
                "policyType": "Custom",
            }
        ],
        "subject": "User:alice",
    }
    admin.put({**ENTRY, "resource": "Topic:*"}, kind="Default")
    (listed,) = json.loads(admin.ask(codes.AUTH_LIST_ACL, subjectFilter="ali", resourceFilter="Topic:T").body)
    assert [len(policy["entries"]) for policy in listed["policies"]] == [1]
    assert admin.ask(codes.AUTH_LIST_ACL, subjectFilter="bob").body == b""
    admin.ask(codes.AUTH_DELETE_ACL, subject="User:alice", resource="Topic:T1")
    assert b"Topic:T1" not in admin.ask(codes.AUTH_GET_ACL, subject="User:alice").body
    admin.ask(codes.AUTH_DELETE_ACL, subject="User:alice", policyType="Default", resource="Topic:*")
    admin.ask(codes.AUTH_DELETE_ACL, subject="User:alice")
    assert admin.ask(codes.AUTH_GET_ACL, subject="User:alice").body == b""
    assert admin.service.encode() == b"{}"


@pytest.mark.parametrize(
    ("code", "fields", "body", "answer"),
    [
        (3006, {"subject": "User:bob"}, ENTRY, (16, "The subject of User:bob is not exist.")),
        (3006, {"subject": "Group:bob"}, ENTRY, (1, SYSTEM)),
        (3006, {"subject": "User:alice"}, {**ENTRY, "resource": "T1"}, (16, "The resource is null.")),
        (3007, {"subject": "User:alice"}, {**ENTRY, "actions": []}, (16, "The actions is empty.")),
        (3006, {"subject": "User:alice"}, None, (1, NO_BODY)),
        (3008, {"subject": "User:alice"}, None, (16, "The acl is not exist.")),
        (3008, {"subject": "User:bob"}, None, (16, "The subject is not exist.")),
        (3008, {}, None, (16, "The subject is null.")),
        (3009, {"subject": "User:bob"}, None, (16, "The subject is not exist.")),
        (3009, {}, None, (16, "The subject is null.")),
    ],
)
def test_refusals(code: int, fields: dict[str, str], body: object, answer: tuple[int, str]) -> None:
    admin = Admin()
    policies = None if body is None else {"policies": [{"entries": [body]}]}
    with pytest.raises(Refused) as refused:
        admin.ask(code, policies, **fields)
    assert (refused.value.response_code, str(refused.value)) == answer
    assert admin.effects.persists == set()


def test_entries_are_limited() -> None:
    admin = Admin()
    with pytest.raises(Refused, match=f"at most {MOST_ENTRIES} entries"):
        admin.put(*({**ENTRY, "resource": f"Topic:T{number}"} for number in range(MOST_ENTRIES + 1)))
    assert admin.service.encode() == b""


def test_the_policies_of_a_deleted_user_are_gone() -> None:
    admin = Admin()
    admin.put(ENTRY)
    admin.effects.take()
    admin.service.dropped("alice")
    admin.service.dropped("bob")
    assert admin.ask(codes.AUTH_GET_ACL, subject="User:alice").body == b"" and admin.effects.persists == {"acls"}


@pytest.mark.parametrize("code", [3006, 3007, 3008, 3009, 3010])
def test_without_authentication_nobody_manages_policies(code: int) -> None:
    with pytest.raises(Refused, match=OFF):
        Admin(on=False).ask(code, {}, subject="User:alice")
