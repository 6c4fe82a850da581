"""`bolide policy`, against a broker that asks who somebody is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.access import Signed, guarded


@pytest.fixture(scope="module")
def admin() -> Iterator[Signed]:
    with guarded() as signed:
        signed("user", "create", "bob", "--password-stdin", typed="bob-secret\n")
        yield signed


def test_a_policy_is_created_changed_in_parts_and_deleted(admin: Signed) -> None:
    words = ("policy", "create", "bob", "Topic:orders")
    assert admin(*words, "-a", "Pub", "-a", "Sub") == "bob has a policy for Topic:orders on broker-a\n"
    assert "bob has a policy for Topic:orders: use policy change" in admin(*words, "-a", "Pub", code=1)
    change = ("policy", "change", "bob", "Topic:orders")
    admin(*change, "--from", "10.0.0.0/8")
    admin(*change, "--deny")
    shown = {"resource": "Topic:orders", "decision": "Deny", "actions": "Pub Sub", "from": "10.0.0.0/8"}
    assert admin.rows("policy", "show", "bob") == [{**shown, "type": "Custom"}]
    admin(*change, "-a", "Get", "--allow", "--from-anywhere")
    shown = {"resource": "Topic:orders", "decision": "Allow", "actions": "Get", "from": ""}
    assert admin.rows("policy", "list") == [{"user": "bob", **shown, "type": "Custom"}]
    admin("policy", "create", "bob", "Group:*", "-a", "Sub")
    admin("policy", "delete", "bob", "Topic:orders", "--yes")
    assert [row["resource"] for row in admin.rows("policy", "list")] == ["Group:*"]
    assert "all policies of bob are deleted from broker-a" in admin("policy", "delete", "bob", "--yes")
    assert admin.rows("policy", "show", "bob") == []


def test_invalid_policy_command_is_reported(admin: Signed) -> None:
    assert "there is no user ghost" in admin("policy", "create", "ghost", "*", "-a", "All", code=1)
    assert "no action is given: write --action" in admin("policy", "create", "bob", "*", code=2)
    assert "nothing to change: give --action" in admin("policy", "change", "bob", "*", code=2)
    both = ("--from", "10.0.0.1", "--from-anywhere")
    assert "exclude each other" in admin("policy", "change", "bob", "*", *both, code=2)
    for verb, words in (("change", ["--deny"]), ("delete", ["--yes"])):
        assert "bob has no policy for Topic:none" in admin("policy", verb, "bob", "Topic:none", *words, code=1)
    assert "give * or a kind and a name" in admin("policy", "create", "bob", "Nonsense", "-a", "Pub", code=2)
    assert "actions is 'Read' (str), give one of All," in admin("policy", "create", "bob", "*", "-a", "Read", code=2)
