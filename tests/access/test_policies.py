"""Policies: which entry decides (docs/protocol/acl.md 5), their texts, and their file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.access.policies import (
    AclInfo,
    Acls,
    BadPolicy,
    EntryInfo,
    Policies,
    PolicyInfo,
    PolicyType,
    Resource,
    Ruling,
    is_source,
    merged,
    policies_of,
    without,
)
from bolide.remoting.request_access import Action, Asked, ResourceType

HERE = "127.0.0.1"


def entry(resource: str, decision: str, actions: str = "Pub", sources: str = "") -> EntryInfo:
    return EntryInfo(resource, actions.split(","), sources.split(",") if sources else None, decision)


def policies(*custom: EntryInfo, default: tuple[EntryInfo, ...] = ()) -> Policies:
    info = [PolicyInfo("Custom", list(custom))] if custom else []
    if default:
        info.append(PolicyInfo("Default", list(default)))
    return merged({}, policies_of(AclInfo(None, info)))


def decided(found: Policies, topic: str = "T1", action: Action = Action.PUB, source: str = HERE) -> Ruling | None:
    acls = Acls()
    acls.put("alice", found)
    return acls.deciding("alice", Asked(ResourceType.TOPIC, topic, (action,)), source)


ALLOW, DENY = Ruling.ALLOW, Ruling.DENY


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (policies(entry("Topic:T*", "Allow"), entry("Topic:T1", "Deny")), DENY),
        (policies(entry("Topic:T*", "Deny"), entry("Topic:T1", "Allow")), ALLOW),
        (policies(entry("*", "Allow"), entry("Topic:*", "Deny")), DENY),
        (policies(entry("*", "Deny"), entry("Topic:*", "Allow")), ALLOW),
        (policies(entry("Topic:T1", "Deny", "Sub"), entry("Topic:T*", "Allow")), ALLOW),
        (policies(entry("Topic:X", "Deny"), default=(entry("Topic:*", "Allow"),)), ALLOW),
        (policies(entry("*", "Allow"), default=(entry("Topic:T1", "Deny"),)), ALLOW),
        (policies(entry("Topic:T1", "Allow", sources="10.0.0.0/8")), None),
        (policies(entry("Topic:T1", "Allow"), entry("Topic:T1", "Deny")), DENY),
        (policies(entry("Topic:T1", "Allow", "Get")), None),
        (policies(entry("Topic:T1", "Allow", "All")), ALLOW),
        (policies(entry("Group:T1", "Allow")), None),
        (policies(entry("Topic:t1", "Allow")), None),
        ({}, None),
    ],
)
def test_most_specific_entry_decides(found: Policies, wanted: Ruling | None) -> None:
    assert decided(found) is wanted


def test_the_longer_prefix_decides() -> None:
    found = policies(entry("Topic:T*", "Deny"), entry("Topic:T1*", "Allow"))
    assert (decided(found, "T12"), decided(found, "T2")) == (ALLOW, DENY)


@pytest.mark.parametrize(
    ("source", "known", "covers"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("127.0.0.1", "0.0.0.0/0", True),
        ("127.0.0.1", "127.0.0.1/32", True),
        ("10.0.0.1", "127.0.0.0/8", False),
        ("fe80::7", "fe80::/64", True),
        ("::1", "0:0:0:0:0:0:0:1", False),
        ("::1", "127.0.0.0/8", False),
        ("not an address", "0.0.0.0/0", False),
    ],
)
def test_entry_applies_to_its_sources(source: str, known: str, covers: bool) -> None:
    assert decided(policies(entry("Topic:T1", "Allow", sources=known)), source=source) is (ALLOW if covers else None)


@pytest.mark.parametrize("text", ["1.2.3.*", "*", "10.0.0.0/33", "10.0.0.0/255.0.0.0", "", "fe80::1%eth0", "1.2.3.4/"])
def test_no_address(text: str) -> None:
    assert not is_source(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("*", "*"),
        ("Topic:T1", "Topic:T1"),
        ("topic:T*", "Topic:T*"),
        ("Group:*", "Group:*"),
        ("Cluster:C", "Cluster:C"),
        ("Namespace:n", "Namespace:n"),
        ("Topic:a*b*", "Topic:a*"),
        ("Topic:a*b", "Topic:a*b"),
    ],
)
def test_resources(text: str, key: str) -> None:
    found = Resource.parse(text)
    assert found is not None and found.key == key


@pytest.mark.parametrize("text", [None, "", " ", "T1", "Queue:q"])
def test_no_resource(text: str | None) -> None:
    assert Resource.parse(text) is None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (entry("bad", "Allow"), "The resource is null."),
        (entry("Topic:T", "Allow", "Nothing"), "The actions is empty."),
        (entry("Topic:T", "Allow", "Pub,Any"), "The actions can not be Any."),
        (entry("Topic:T", "Allow", sources="1.2.3.*"), "The source ip is invalid."),
        (entry("Topic:T", "Perhaps"), "The decision is null or illegal."),
    ],
)
def test_invalid_policy_is_rejected(wrong: EntryInfo, why: str) -> None:
    with pytest.raises(BadPolicy, match=f"^{why}$"):
        policies_of(AclInfo(None, [PolicyInfo(None, [wrong])]))


def test_a_policy_that_exists_is_merged() -> None:
    first = policies(entry("Topic:T1", "Allow"), entry("Topic:T2", "Allow"))
    more = policies_of(AclInfo(None, [PolicyInfo(None, [entry("Topic:T1", "Deny"), entry("Topic:T3", "Allow")])]))
    both = merged(first, more)[PolicyType.CUSTOM]
    assert [(one.resource.key, one.decision) for one in both] == [
        ("Topic:T1", DENY),
        ("Topic:T2", ALLOW),
        ("Topic:T3", ALLOW),
    ]


def test_resource_is_removed_from_policy() -> None:
    resource = Resource.parse("Topic:T1")
    assert resource is not None
    acls = Acls()
    acls.put("a", without(policies(entry("Topic:T1", "Allow")), PolicyType.CUSTOM, resource))
    assert acls.get("a") is None


NAMES = st.text("Tt12*", max_size=4)
ENTRIES = st.builds(
    entry,
    st.one_of(st.just("*"), NAMES.map("Topic:".__add__), NAMES.map("Group:".__add__)),
    st.sampled_from(["Allow", "Deny"]),
    st.sampled_from(["Pub", "Sub", "Pub,Sub", "All"]),
    st.sampled_from(["", HERE, "10.0.0.0/8"]),
)


@given(st.lists(ENTRIES, min_size=1, max_size=6), NAMES)
def test_the_file_holds_what_was_decided(entries: list[EntryInfo], topic: str) -> None:
    before, after = Acls(), Acls()
    before.put("u", policies(*entries))
    after.load(before.encode())
    assert after.get("u") == before.get("u") and after.info("u") == before.info("u")
    asked = Asked(ResourceType.TOPIC, topic, (Action.PUB,))
    assert after.deciding("u", asked, HERE) is before.deciding("u", asked, HERE)


@given(st.lists(ENTRIES, min_size=1, max_size=6), NAMES)
def test_allowed_action_has_an_allowing_entry(entries: list[EntryInfo], topic: str) -> None:
    found = policies(*entries)
    if decided(found, topic) is ALLOW:
        asked = Asked(ResourceType.TOPIC, topic, (Action.PUB,))
        assert any(one.decision is ALLOW and one.matches(asked, HERE) for one in found[PolicyType.CUSTOM])


@given(
    st.permutations(
        [entry("*", "Deny"), entry("Topic:*", "Allow"), entry("Topic:T*", "Deny"), entry("Topic:T1", "Allow")]
    )
)
def test_the_order_of_entries_does_not_matter(entries: list[EntryInfo]) -> None:
    found = policies(*entries)
    assert [decided(found, topic) for topic in ("T1", "T2", "X")] == [ALLOW, DENY, ALLOW]


def test_the_file_is_as_rocketmq_keeps_it() -> None:
    acls = Acls()
    acls.put("alice", policies(entry("Group:g*", "Allow", "Pub,Sub", "127.0.0.1,10.0.0.0/8")))
    assert acls.encode() == (
        b'{"User:alice":{"policies":[{"entries":[{"actions":[3,4],"decision":1,"resource":{"resourcePattern":3,'
        b'"resourceType":5,"resourceName":"g"},"environment":{"sourceIps":["127.0.0.1","10.0.0.0/8"]}}],'
        b'"policyType":1}],"subject":{"subjectType":1,"username":"alice"}}}'
    )
