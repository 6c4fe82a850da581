"""A role says what its broker may do, and tells when it changes."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.broker.core.role import ASYNC_MASTER, SLAVE, SYNC_MASTER, Role
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError

ACTING: dict[str, Any] = {"enable_slave_acting_master": True, "namesrv_addr": "a:1"}


def allowed(role: Role) -> tuple[bool, bool, bool]:
    return role.may_write, role.may_serve, role.may_deliver


@pytest.mark.parametrize("name", [ASYNC_MASTER, SYNC_MASTER])
def test_a_master_does_everything_under_the_id_0(name: str) -> None:
    role = Role.of(BrokerOptions.of(broker_role=name, broker_id=7))
    assert allowed(role) == (True, True, True)
    assert role.broker_id == 0


@pytest.mark.parametrize("reads", [False, True])
def test_a_slave_serves_reads_where_it_may(reads: bool) -> None:
    role = Role.of(BrokerOptions.of(broker_role=SLAVE, broker_id=7, slave_read_enable=reads))
    assert allowed(role) == (False, reads, False)
    assert role.broker_id == 7


def test_callback_sees_the_new_role() -> None:
    role = Role()
    seen = []
    role.told.append(lambda changed, now: seen.append((changed.name, changed.broker_id, changed.may_write, now)))
    role.become(SLAVE, 3, 5)
    role.become(SYNC_MASTER, 3, 6)
    assert seen == [(SLAVE, 3, False, 5), (SYNC_MASTER, 0, True, 6)]


def test_a_slave_without_a_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="brokerRole = SLAVE needs a brokerId above 0"):
        BrokerOptions.of(broker_role="SLAVE")


def test_master_warns_of_misleading_settings() -> None:
    (number,) = BrokerOptions.of(broker_id=7).warnings
    assert number == "brokerId = 7 is treated as 0: a broker with brokerRole = ASYNC_MASTER is a master"
    (port,) = BrokerOptions.of(broker_role="SYNC_MASTER", fast_port_enable="false").warnings
    assert port.startswith("fastPortEnable = false: slaves of RocketMQ ask for topics")
    assert BrokerOptions.of(broker_role="SYNC_MASTER").warnings == ()
    assert BrokerOptions.of(broker_role="SLAVE", broker_id=7).warnings == ()


def test_a_closed_fast_port_is_named_where_a_broker_of_rocketmq_needs_it() -> None:
    (port,) = BrokerOptions.of(ha_listen_port=10912, fast_port_enable="false").warnings
    assert port.startswith("fastPortEnable = false: slaves of RocketMQ ask for topics")
    assert BrokerOptions.of(ha_listen_port=10912).warnings == ()
    acting: dict[str, Any] = {"broker_role": SLAVE, "broker_id": 1, "slave_read_enable": True, **ACTING}
    (port,) = BrokerOptions.of(**acting, fast_port_enable="false").warnings
    assert port.startswith("fastPortEnable = false: a master of RocketMQ that comes back asks for timers")
    assert BrokerOptions.of(**acting).warnings == ()
    assert BrokerOptions.of(**ACTING).warnings == ()


def test_the_slave_with_the_smallest_id_acts_while_there_is_no_master() -> None:
    role = Role.of(BrokerOptions.of(broker_role=SLAVE, broker_id=2, **ACTING))
    assert role.least_is(1)
    assert (role.masterless, role.acting) == (True, False)
    assert role.least_is(2) and not role.least_is(2)
    assert (role.masterless, role.acting) == (True, True)
    assert allowed(role) == (False, False, False), "it stores nothing and delivers nothing"
    assert role.least_is(0)
    assert (role.masterless, role.acting) == (False, False)


ESCAPE: dict[str, Any] = {**ACTING, "enable_remote_escape": True}


def test_an_acting_slave_that_may_send_elsewhere_does_the_background_work() -> None:
    role = Role.of(BrokerOptions.of(broker_role=SLAVE, broker_id=2, **ESCAPE))
    assert not role.may_deliver and not role.sends_away
    assert role.least_is(1) and not role.may_deliver
    assert role.least_is(2) and role.may_deliver and role.sends_away
    assert not role.may_write and not role.may_check, "it stores nothing, and ends no transaction"
    assert role.least_is(0) and not role.may_deliver and not role.sends_away


@pytest.mark.parametrize(("more", "held"), [({}, False), ({"total_replicas": 2}, True)])
def test_a_master_of_such_a_set_delivers_once_it_has_asked_the_set(more: dict[str, Any], held: bool) -> None:
    role = Role.of(BrokerOptions.of(**ESCAPE, **more))
    assert role.may_write and role.may_deliver is not held and role.may_check is not held
    assert role.come_online() is held
    assert role.may_deliver and role.may_check and not role.sends_away
    assert not role.come_online()
    at_once = Role.of(BrokerOptions.of(**ESCAPE, **more, skip_pre_online=True))
    assert at_once.may_deliver


def test_slave_without_permission_does_not_act() -> None:
    assert not Role.of(BrokerOptions.of(broker_role=SLAVE, broker_id=1)).least_is(1)
    assert not Role.of(BrokerOptions.of(**ACTING)).least_is(1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"enable_slave_acting_master": True}, "enableSlaveActingMaster = true needs namesrvAddr"),
        (
            {**ACTING, "enable_controller_mode": True, "controller_addr": "a:2"},
            "enableSlaveActingMaster = true is not allowed with enableControllerMode",
        ),
        ({"enable_auto_in_sync_replicas": True}, "enableAutoInSyncReplicas = true needs enableSlaveActingMaster"),
        (
            {"enable_remote_escape": True},
            "enableRemoteEscape = true needs enableSlaveActingMaster",
        ),
        ({**ACTING, "min_in_sync_replicas": 2}, "minInSyncReplicas = 2 needs enableControllerMode = true or"),
        (
            {**ACTING, "enable_auto_in_sync_replicas": True, "min_in_sync_replicas": 2},
            "minInSyncReplicas = 2 needs brokerRole = SYNC_MASTER",
        ),
    ],
)
def test_settings_of_acting_masters_that_do_not_fit(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerOptions.of(**settings)


def test_an_acting_master_that_serves_nothing_is_warned_of() -> None:
    (text,) = BrokerOptions.of(broker_role=SLAVE, broker_id=1, fast_port_enable="true", **ACTING).warnings
    assert text == "slaveReadEnable = false: as acting master this broker would serve no pulls"
