"""The group table: creation on the fly, names, and its file."""

from __future__ import annotations

import pytest

from bolide.broker.core.effects import Effects
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig


def table(**settings: bool) -> GroupTable:
    return GroupTable(BrokerOptions.of(**settings), Effects(), 1)


def test_groups_are_made_when_allowed() -> None:
    made = table()
    found = made.find("g", 5)
    assert found is not None and found.retry_max_times == 16 and made.find("g", 6) is found
    assert made.find("bad name", 5) is None and made.find("g" * 121, 5) is None
    closed = table(auto_create_subscription_group=False)
    assert closed.find("g", 5) is None
    assert closed.find("CID_RMQ_SYS_TRANS", 5) is not None


def test_the_file_is_read_back() -> None:
    made = table()
    config = SubscriptionGroupConfig("g")
    config.retry_max_times, config.consume_enable = 3, False
    made.put(config, 9)
    made.forbidden["g"] = {"T": 4}
    other = table()
    other.load(made.encode())
    assert other.table["g"].to_json() == config.to_json()
    assert other.forbidden == {"g": {"T": 4}} and other.data_version.counter == 1
    assert other.delete("g", 10) and other.forbidden == {} and not other.delete("g", 10)


def test_forbidden_topics_have_a_limit() -> None:
    made = GroupTable(BrokerOptions.of(max_groups=9), Effects(), 1)
    for number in range(9):
        made.forbid_read(f"g{number % 2}", f"T{number}", True, 2)
    with pytest.raises(Refused, match="as many as maxGroups"):
        made.forbid_read("g", "T", True, 2)
    made.forbid_read("g0", "T0", True, 2)  # is forbidden already
    made.forbid_read("g0", "T0", False, 2)
    made.forbid_read("g", "T", True, 2)
    made.forbid_read("g", "T", False, 2)
    with pytest.raises(Refused, match="255 characters"):
        made.forbid_read("g", "T" * 256, True, 2)
    assert not made.may_read("g1", "T1") and made.may_read("g", "T")


def test_a_deleted_group_leaves_no_forbidden_topics_even_if_it_was_never_made() -> None:
    effects = Effects()
    made = GroupTable(BrokerOptions(), effects, 1)
    made.forbid_read("g", "T", True, 2)
    effects.persists.clear()
    assert made.delete("g", 3)
    assert made.may_read("g", "T"), "a later group of that name reads everything"
    assert effects.persists
    assert not made.delete("g", 4)
