"""`bolide user`, against a broker that asks who somebody is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.access import Signed, guarded


@pytest.fixture(scope="module")
def admin() -> Iterator[Signed]:
    with guarded() as signed:
        yield signed


def test_a_user_is_created_changed_shown_and_deleted(admin: Signed) -> None:
    said = admin("user", "create", "alice", "--password-stdin", typed="alice-secret\n")
    assert said == "user alice (Normal) is created on broker-a\n"
    assert admin.rows("user", "list") == [
        {"user": "admin", "type": "Super", "status": "enable"},
        {"user": "alice", "type": "Normal", "status": "enable"},
    ]
    alice = Signed(admin.broker, "alice", "alice-secret")
    assert "no matched policies" in alice("topic", "create", "UserTopic", code=1)
    assert admin("user", "change", "alice", "--super") == "user alice is changed on broker-a\n"
    alice("topic", "create", "UserTopic", "--queues", "1")
    admin("user", "change", "alice", "--password-stdin", typed="another\n")
    assert "check signature failed" in alice("user", "list", code=1)
    admin("user", "change", "alice", "--disable", "--normal")
    assert admin.rows("user", "show", "alice") == {"user": "alice", "type": "Normal", "status": "disable"}
    admin("user", "delete", "alice", "--yes")
    assert [row["user"] for row in admin.rows("user", "list")] == ["admin"]


def test_no_answer_has_a_password(admin: Signed) -> None:
    for words in (["list"], ["show", "admin"]):
        for form in ([], ["--json"]):
            assert "admin-secret" not in admin("user", *words, *form)


def test_a_user_that_is_not_there_is_told(admin: Signed) -> None:
    for words in (["show"], ["change", "--disable"], ["delete", "--yes"]):
        assert "there is no user ghost: no broker knows it" in admin("user", words[0], "ghost", *words[1:], code=1)
    assert "nothing to change: give --password" in admin("user", "change", "admin", code=2)
    assert "existed" in admin("user", "create", "admin", "--password-stdin", typed="x\n", code=1)
