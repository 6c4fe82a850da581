"""The group table: creation on the fly, names, and its file."""

from __future__ import annotations

from bolide.broker.effects import Effects
from bolide.broker.groups import GroupTable, SubscriptionGroupConfig
from bolide.broker.options import BrokerOptions


def table(**settings: bool) -> GroupTable:
    return GroupTable(BrokerOptions(**settings), Effects(), 1)


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
