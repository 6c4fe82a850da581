"""Requests 3001 to 3005 (docs/protocol/acl.md 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bolide.access.users import User, Users, UserType
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.operator.user_admin import OFF, UserAdminService
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, reply_of


class Admin:
    """The service with a Super user root, who signs, and a user alice."""

    def __init__(self, **settings: Any) -> None:
        self.users = Users()
        self.users.put(User("root", "rootpw", UserType.SUPER))
        self.users.put(User("alice", "alicepw"))
        self.effects = Effects()
        self.dropped: list[str] = []
        options = BrokerOptions.of(**{"authentication_enabled": True, **settings})
        self.service = UserAdminService(options, self.users, self.effects, self.dropped.append)

    def ask(self, code: int, body: object = None, by: str = "root", **fields: str) -> Command:
        data = b"" if body is None else json.dumps(body).encode()
        request = make_request(code, 1, {"AccessKey": by, **fields}, data)
        return reply_of(self.service.handlers()[code](Channel(1, PEER, "10.1.2.3:4567"), request, NOW))

    def refused(self, code: int, body: object = None, by: str = "root", **fields: str) -> tuple[int, str]:
        with pytest.raises(Refused) as refused:
            self.ask(code, body, by, **fields)
        return refused.value.response_code, str(refused.value)


def test_a_user_is_made_changed_shown_and_deleted() -> None:
    admin = Admin()
    made = admin.ask(codes.AUTH_CREATE_USER, {"password": "bobpw", "userType": "normal"}, username="bob")
    assert (made.code, made.remark, admin.effects.persists) == (0, "not set any response code", {"users"})
    shown = admin.ask(codes.AUTH_GET_USER, username="bob")
    assert shown.body == b'{"password":"bobpw","userStatus":"enable","userType":"Normal","username":"bob"}'
    admin.ask(codes.AUTH_UPDATE_USER, {"userStatus": "disable"}, username="bob")
    listed = json.loads(admin.ask(codes.AUTH_LIST_USER, filter="bo").body)
    assert listed == [{"password": "bobpw", "userStatus": "disable", "userType": "Normal", "username": "bob"}]
    assert admin.ask(codes.AUTH_DELETE_USER, username="bob").code == 0
    assert admin.dropped == ["bob"] and admin.users.get("bob") is None
    assert admin.ask(codes.AUTH_GET_USER, username="bob").body == b""
    assert admin.ask(codes.AUTH_LIST_USER, filter="bob").body == b""
    assert admin.ask(codes.AUTH_DELETE_USER, username="bob").code == 0


@pytest.mark.parametrize(
    ("code", "name", "body", "by", "answer"),
    [
        (3001, "", {"password": "p"}, "root", (29, "The username is blank")),
        (3001, "alice", {"password": "p"}, "root", (16, "The user is existed")),
        (3001, "bob", {"password": " "}, "root", (16, "password can not be blank")),
        (3001, "bob", {"password": "p", "userType": "Super"}, "alice",
         (1, "The super user can only be create by super user")),
        (3002, " ", {}, "root", (29, "The username is blank")),
        (3002, "bob", {}, "root", (16, "The user is not exist")),
        (3002, "alice", {"userType": "Super"}, "alice", (1, "The super user can only be update by super user")),
        (3002, "root", {"password": "mine"}, "alice", (16, "The super user can only be update by super user")),
        (3003, "", None, "root", (16, "username can not be blank")),
        (3003, "root", None, "alice", (16, "The super user can only be update by super user")),
        (3004, "", None, "root", (29, "The username is blank")),
    ],
)  # fmt: skip
def test_refusals(code: int, name: str, body: object, by: str, answer: tuple[int, str]) -> None:
    admin = Admin()
    assert admin.refused(code, body, by, username=name) == answer
    assert admin.effects.persists == set()


@pytest.mark.parametrize("code", [3001, 3002, 3003, 3004, 3005])
def test_without_authentication_nobody_manages_users(code: int) -> None:
    assert Admin(authentication_enabled=False).refused(code, {"password": "p"}, username="bob") == (1, OFF)


def test_users_of_the_settings_are_made_at_the_start() -> None:
    settings = {
        "init_authentication_user": '{"username":"first","password":"one"}',
        "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"two"}',
    }
    admin = Admin(**settings)
    assert admin.service.encode() == b""
    assert admin.service.make_missing() and not admin.service.make_missing()
    assert {"first", "inner"} <= json.loads(admin.service.encode()).keys()
    assert not Admin(authentication_enabled=False, **settings).service.make_missing()


def test_a_file_that_was_read_is_written_again() -> None:
    admin = Admin()
    admin.service.load(b"{}")
    assert admin.service.encode() == b"{}"
