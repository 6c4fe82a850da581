"""A role says what its broker may do, and tells when it changes."""

from __future__ import annotations

import pytest

from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.role import ASYNC_MASTER, SLAVE, SYNC_MASTER, Role
from bolide.errors import ConfigError


def allowed(role: Role) -> tuple[bool, bool, bool]:
    return role.may_write, role.may_serve, role.may_deliver


@pytest.mark.parametrize("name", [ASYNC_MASTER, SYNC_MASTER])
def test_a_master_does_everything_under_the_id_0(name: str) -> None:
    role = Role.of(BrokerOptions(broker_role=name, broker_id=7))
    assert allowed(role) == (True, True, True)
    assert role.broker_id == 0


@pytest.mark.parametrize("reads", [False, True])
def test_a_slave_serves_reads_where_it_may(reads: bool) -> None:
    role = Role.of(BrokerOptions(broker_role=SLAVE, broker_id=7, slave_read_enable=reads))
    assert allowed(role) == (False, reads, False)
    assert role.broker_id == 7


def test_who_is_told_sees_the_new_role() -> None:
    role = Role()
    seen = []
    role.told.append(lambda changed, now: seen.append((changed.name, changed.broker_id, changed.may_write, now)))
    role.become(SLAVE, 3, 5)
    role.become(SYNC_MASTER, 3, 6)
    assert seen == [(SLAVE, 3, False, 5), (SYNC_MASTER, 0, True, 6)]


def test_a_slave_without_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="brokerRole = SLAVE needs a brokerId above 0"):
        BrokerOptions(broker_role="SLAVE")


def test_what_a_master_should_know_of_its_settings() -> None:
    (number,) = BrokerOptions(broker_id=7).warnings
    assert number == "brokerId = 7 is taken as 0: a broker with brokerRole = ASYNC_MASTER is a master"
    (port,) = BrokerOptions(broker_role="SYNC_MASTER").warnings
    assert port.startswith("fastPortEnable = false: slaves of RocketMQ ask for topics")
    assert BrokerOptions(broker_role="SYNC_MASTER", fast_port_enable=True).warnings == ()
    assert BrokerOptions(broker_role="SLAVE", broker_id=7).warnings == ()
