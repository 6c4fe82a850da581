"""Users: their file, and that their passwords are printed nowhere."""

from __future__ import annotations

import pytest

from bolide.access.users import Credentials, User, Users, UserStatus, UserType, signed, user_status, user_type
from bolide.remoting.command import make_request


def test_the_file_is_as_rocketmq_keeps_it() -> None:
    users = Users()
    users.put(User("alice", "alicepw"))
    text = users.encode()
    assert text == (b'{"alice":{"password":"alicepw","subjectType":1,"userStatus":1,"userType":2,"username":"alice"}}')
    again = Users()
    again.load(text)
    assert again.get("alice") == users.get("alice")


@pytest.mark.parametrize("bad", [b"", b"[]", b'{"a":{}}', b'{"a":{"password":"x","userType":9,"userStatus":1}}'])
def test_another_file_is_not_taken(bad: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        Users().load(bad)


def test_users_of_the_settings_are_made_once() -> None:
    users = Users()
    first = Credentials("root", "one")
    assert users.make_missing((first, None)) and not users.make_missing((Credentials("root", "two"),))
    user = users.get("root")
    assert user is not None and (user.password, user.is_super) == ("one", True)


def test_passwords_are_not_printed() -> None:
    user = User("alice", "s3cret-word")
    for shown in (user, user.info(), Credentials("alice", "s3cret-word")):
        assert "s3cret-word" not in repr(shown) + str(shown)


def test_names_of_types_in_any_case() -> None:
    assert [user_type(text) for text in ("super", "NORMAL", "other", "", None)] == [
        UserType.SUPER, UserType.NORMAL, UserType.NORMAL, None, None,
    ]  # fmt: skip
    assert [user_status(text) for text in ("DISABLE", "enable", "other", " ")] == [
        UserStatus.DISABLE, UserStatus.ENABLE, UserStatus.ENABLE, None,
    ]  # fmt: skip


def test_the_users_are_listed_by_part_of_their_name() -> None:
    users = Users()
    for name in ("carol", "alice", "bob"):
        users.put(User(name, "x"))
    assert [user.name for user in users.listed("o")] == ["bob", "carol"] and users.count == 3
    assert users.drop("bob") and not users.drop("bob")


def test_a_request_is_signed_where_there_are_credentials() -> None:
    assert "Signature" in signed(make_request(28, 0), Credentials("a", "b")).ext()
    assert signed(make_request(28, 0), None).ext() == {}
