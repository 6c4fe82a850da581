"""A controller's answers, against the dialogues of Java's 5.5.0 brokers and mqadmin with a Java controller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bolide.controller.effects import ClosePeer, Elect, KeepControllerSettings, TellReplica
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.controller.controllers import CLUSTER, NAME, Engine, Seat, address, set_of_two

NOT_LEADER = codes.CONTROLLER_NOT_LEADER


@pytest.fixture
def seat() -> Seat:
    seat = Seat(Engine())
    seat.lead()
    return seat


def body(answer: Command) -> Any:
    return json.loads(answer.body)


def test_the_dialogue_of_a_new_broker(seat: Seat) -> None:
    answer = seat.ask(codes.CONTROLLER_GET_METADATA_INFO)
    assert answer.ext() == {
        "group": "bolide",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": "10.0.0.0:9877",
        "isLeader": "true",
        "peers": "n0:10.0.0.0:9877;",
    }
    assert seat.ask(codes.CONTROLLER_GET_NEXT_BROKER_ID, CLUSTER).ext() == CLUSTER | {"nextBrokerId": "1"}
    registered = seat.join(1)
    assert (registered.code, registered.ext()) == (0, CLUSTER)
    assert body(registered) == {"syncStateSet": [], "syncStateSetEpoch": 0}
    seat.beat(1, 0)
    elected = seat.elect(1)
    assert elected.ext() == {
        "masterBrokerId": "1",
        "masterAddress": address(1),
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
    }
    assert body(elected) == {
        "brokerMemberGroup": {"brokerAddrs": {"1": address(1)}, "brokerName": NAME, "cluster": "DefaultCluster"},
        "syncStateSet": [1],
    }
    assert seat.ask(codes.CONTROLLER_GET_NEXT_BROKER_ID, CLUSTER).ext()["nextBrokerId"] == "2"
    second = seat.join(2)
    assert second.ext() == CLUSTER | {
        "masterBrokerId": "1",
        "masterAddress": address(1),
        "masterEpoch": "1",
        "syncStateSetEpoch": "1",
    }
    seat.beat(2, 0)
    altered = seat.alter(1, 1, [2, 1], 1)
    assert (altered.ext(), body(altered)) == (
        {"newSyncStateSetEpoch": "2"},
        {"syncStateSet": [1, 2], "syncStateSetEpoch": 2},
    )


def test_replicas_are_shown(seat: Seat) -> None:
    set_of_two(seat)
    info = seat.ask(codes.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME})
    assert info.ext() == {"masterBrokerId": "1", "masterAddress": address(1), "masterEpoch": "1"}
    assert body(info) == {"syncStateSet": [1, 2], "syncStateSetEpoch": 2}
    seat.join(3)
    data = body(seat.ask(codes.CONTROLLER_GET_SYNC_STATE_DATA, body=json.dumps([NAME, "unknown"]).encode()))
    shown = data["replicasInfoTable"].pop(NAME)
    assert data == {"replicasInfoTable": {}}
    assert [(one["brokerId"], one["alive"]) for one in shown["inSyncReplicas"]] == [(1, True), (2, True)]
    assert shown["notInSyncReplicas"] == [
        {"alive": False, "brokerAddress": address(3), "brokerId": 3, "brokerName": NAME}
    ]
    assert (shown["masterBrokerId"], shown["masterAddress"], shown["masterEpoch"]) == (1, address(1), 1)
    unknown = seat.ask(codes.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "unknown"})
    assert unknown.code == codes.CONTROLLER_BROKER_METADATA_NOT_EXIST
    nothing = seat.ask(codes.CONTROLLER_GET_SYNC_STATE_DATA)
    assert (nothing.code, nothing.remark) == (1, "not set any response code")


def test_a_controller_that_does_not_lead_says_so_and_names_the_leader() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    set_of_two(first)
    for code, ext in (
        (codes.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME}),
        (codes.CONTROLLER_GET_NEXT_BROKER_ID, CLUSTER),
        (codes.CLEAN_BROKER_DATA, CLUSTER),
    ):
        assert second.ask(code, ext).code == NOT_LEADER
    assert second.ask(codes.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["a"]').code == NOT_LEADER
    assert {second.register(1).code, second.elect(1).code, second.alter(1, 1, [1], 2).code} == {NOT_LEADER}
    metadata = second.ask(codes.CONTROLLER_GET_METADATA_INFO).ext()
    assert (metadata["controllerLeaderAddress"], metadata["isLeader"]) == ("10.0.0.0:9877", "false")
    second.lead()
    first.leads = False  # it has not heard of it yet, but its lease is over
    assert first.elect(2).code == NOT_LEADER
    assert second.ask(codes.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME}).ext()["masterBrokerId"] == "1"


def test_a_master_that_falls_silent_is_replaced_and_the_others_are_told(seat: Seat) -> None:
    set_of_two(seat)
    seat.beat(2, 12_000)
    seat.controller.tick(12_000)
    effects = seat.controller.take_effects()
    assert effects[0] == ClosePeer(1, f"no heartbeat of {NAME} 1")
    assert Elect(NAME) in effects
    seat.keep(seat.controller.election(NAME), make_request(0, 0), 12_000)
    (told,) = seat.controller.take_effects()
    assert isinstance(told, TellReplica)
    assert (told.addr, told.code, told.ext) == (
        address(2),
        codes.NOTIFY_BROKER_ROLE_CHANGED,
        {"masterAddress": address(2), "masterEpoch": "2", "syncStateSetEpoch": "3", "masterBrokerId": "2"},
    )
    assert json.loads(told.body) == {"syncStateSet": [2], "syncStateSetEpoch": 3}


def test_a_master_whose_connection_ends_is_replaced_at_once(seat: Seat) -> None:
    set_of_two(seat)
    seat.controller.channel_closed(2, 100)
    assert seat.controller.take_effects() == []
    seat.beat(2, 150)
    seat.controller.channel_closed(1, 200)
    assert seat.controller.take_effects() == [Elect(NAME)]


def test_a_heartbeat_over_a_new_connection_outlives_the_old_one(seat: Seat) -> None:
    set_of_two(seat)
    seat.beat(1, 100, channel=77)
    seat.controller.channel_closed(1, 200)
    assert seat.controller.take_effects() == []


def test_a_new_leader_finds_a_set_without_its_master_when_all_could_be_heard() -> None:
    engine = Engine()
    first, second = Seat(engine, 0), Seat(engine, 1)
    first.lead()
    set_of_two(first)
    second.beat(2, 1000)
    second.lead(1000)
    second.controller.tick(2000)
    assert second.controller.take_effects() == []
    second.beat(2, 6000)
    second.controller.tick(6000)
    assert second.controller.take_effects() == [Elect(NAME)]


def test_a_set_that_is_down_as_a_whole_keeps_its_master(seat: Seat) -> None:
    set_of_two(seat)
    seat.controller.tick(60_000)
    seat.controller.take_effects()
    seat.keep(seat.controller.election(NAME), make_request(0, 0), 60_000)
    assert (seat.one().master, seat.one().in_sync, seat.one().master_epoch) == (None, (1, 2), 2)
    seat.controller.tick(70_000)
    assert seat.controller.take_effects() == []
    seat.beat(1, 71_000)
    seat.beat(2, 71_000)
    assert seat.elect(2, 71_000).ext()["masterEpoch"] == "3"


def test_settings_are_shown_and_changed(seat: Seat) -> None:
    changed = seat.ask(codes.UPDATE_CONTROLLER_CONFIG, body=b"notifyBrokerRoleChanged=false\nother=1\n")
    assert changed.code == 0
    assert seat.controller.take_effects() == [KeepControllerSettings({"notifyBrokerRoleChanged": "false"})]
    text = seat.ask(codes.GET_CONTROLLER_CONFIG).body.decode()
    assert "notifyBrokerRoleChanged=false\n" in text and "controllerDLegerGroup=bolide\n" in text
    refused = seat.ask(codes.UPDATE_CONTROLLER_CONFIG, body=b"configStorePath=/x\n")
    assert refused.code == codes.NO_PERMISSION


def test_notification_can_be_switched_off() -> None:
    seat = Seat(Engine(), notify_broker_role_changed=False)
    seat.lead()
    seat.join(1)
    seat.beat(1, 0)
    assert seat.elect(1).code == 0
    assert seat.controller.take_effects() == []


def test_a_heartbeat_without_an_id_is_refused(seat: Seat) -> None:
    answer = seat.ask(codes.BROKER_HEARTBEAT, CLUSTER | {"brokerAddr": "a:1"})
    assert (answer.code, answer.remark) == (codes.CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId")
    known = seat.ask(codes.BROKER_HEARTBEAT, CLUSTER | {"brokerAddr": "a:1", "brokerId": "1"})
    assert (known.code, known.remark) == (0, "Heart beat success")


def test_state_from_brokers_is_bounded() -> None:
    seat = Seat(Engine(), max_brokers=1, max_broker_sets=1)
    seat.lead()
    beat = CLUSTER | {"brokerAddr": "a:1"}
    assert seat.ask(codes.BROKER_HEARTBEAT, beat | {"brokerId": "1"}).code == 0
    assert seat.ask(codes.BROKER_HEARTBEAT, beat | {"brokerId": "2"}).code == codes.SYSTEM_ERROR
    assert seat.ask(codes.BROKER_HEARTBEAT, beat | {"brokerId": "1"}).code == 0
    assert seat.ask(codes.BROKER_HEARTBEAT, beat | {"brokerId": "1", "brokerName": "x" * 1025}).code == 1
    seat.join(1)
    more = {"clusterName": "C", "brokerName": "b", "appliedBrokerId": "1", "registerCheckCode": "a:1;1"}
    assert "maxBrokerSets" in str(seat.ask(codes.CONTROLLER_APPLY_BROKER_ID, more).remark)
    long = CLUSTER | {"appliedBrokerId": "2", "registerCheckCode": "x" * 1025}
    assert "registerCheckCode" in str(seat.ask(codes.CONTROLLER_APPLY_BROKER_ID, long).remark)
    before = seat.one()
    assert "brokerAddress" in str(seat.register(1, where="x" * 1025).remark)
    assert seat.one() is before, "each decision about the set would store it"


@pytest.mark.parametrize("code", [codes.CONTROLLER_APPLY_BROKER_ID, codes.CONTROLLER_REGISTER_BROKER])
def test_a_field_that_is_missing_is_named(seat: Seat, code: int) -> None:
    answer = seat.ask(code, {"clusterName": "C"})
    assert answer.code == codes.SYSTEM_ERROR and "brokerName" in str(answer.remark)
