"""Headers of a controller's requests, against the dialogue of a new 5.5.0 broker with a 5.5.0 controller.

That every field is that of its Java class is shown in test_headers.py.
"""

from __future__ import annotations

import pytest

from bolide.remoting.command import make_request
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers import Header, decode_header
from bolide.remoting.headers.controller import (
    AlterSyncStateSetRequestHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    RegisterBrokerToControllerRequestHeader,
)
from bolide.remoting.headers.namesrv import BrokerHeartbeatRequestHeader

CLUSTER = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
IN_CLUSTER = {"cluster_name": "DefaultCluster", "broker_name": "broker-a"}
ADDRESS = "127.0.0.1:41110"
TIME = 1795330192630
DIALOGUE = [
    (
        1005,
        GetMetaDataResponseHeader(
            group="g1",
            controller_leader_id="n0",
            controller_leader_address="127.0.0.1:42600",
            is_leader=True,
            peers="n0:127.0.0.1:42600;",
        ),
        {
            "group": "g1",
            "controllerLeaderId": "n0",
            "controllerLeaderAddress": "127.0.0.1:42600",
            "isLeader": "true",
            "peers": "n0:127.0.0.1:42600;",
        },
    ),
    (1012, GetNextBrokerIdRequestHeader(**IN_CLUSTER), CLUSTER),
    (1012, GetNextBrokerIdResponseHeader(**IN_CLUSTER, next_broker_id=1), CLUSTER | {"nextBrokerId": "1"}),
    (
        1013,
        ApplyBrokerIdRequestHeader(**IN_CLUSTER, applied_broker_id=1, register_check_code=f"{ADDRESS};1795330191994"),
        CLUSTER | {"appliedBrokerId": "1", "registerCheckCode": f"{ADDRESS};1795330191994"},
    ),
    (
        1003,
        RegisterBrokerToControllerRequestHeader(**IN_CLUSTER, broker_id=1, broker_address=ADDRESS, invoke_time=TIME),
        CLUSTER | {"brokerId": "1", "brokerAddress": ADDRESS, "invokeTime": str(TIME)},
    ),
    (
        904,
        BrokerHeartbeatRequestHeader(
            **IN_CLUSTER,
            broker_addr=ADDRESS,
            broker_id=1,
            election_priority=2**31 - 1,
            confirm_offset=0,
            heartbeat_timeout_mills=10000,
            epoch=-1,
            max_offset=0,
        ),
        CLUSTER
        | {
            "brokerAddr": ADDRESS,
            "brokerId": "1",
            "electionPriority": "2147483647",
            "confirmOffset": "0",
            "heartbeatTimeoutMills": "10000",
            "epoch": "-1",
            "maxOffset": "0",
        },
    ),
    (
        1002,
        ElectMasterRequestHeader(**IN_CLUSTER, broker_id=1, designate_elect=False, invoke_time=TIME),
        CLUSTER | {"brokerId": "1", "designateElect": "false", "invokeTime": str(TIME)},
    ),
    (
        1002,
        ElectMasterResponseHeader(master_broker_id=1, master_address=ADDRESS, master_epoch=1, sync_state_set_epoch=1),
        {"masterBrokerId": "1", "masterAddress": ADDRESS, "masterEpoch": "1", "syncStateSetEpoch": "1"},
    ),
    (
        1001,
        AlterSyncStateSetRequestHeader(broker_name="broker-a", master_broker_id=1, master_epoch=1, invoke_time=TIME),
        {"brokerName": "broker-a", "masterBrokerId": "1", "masterEpoch": "1", "invokeTime": str(TIME)},
    ),
    (1001, AlterSyncStateSetResponseHeader(new_sync_state_set_epoch=2), {"newSyncStateSetEpoch": "2"}),
]


@pytest.mark.parametrize(("code", "header", "ext"), DIALOGUE)
def test_the_dialogue_of_a_new_broker(code: int, header: Header, ext: dict[str, str]) -> None:
    assert header.to_ext() == ext
    assert decode_header(make_request(code, 1, ext), type(header)) == header


def test_an_election_without_a_broker_is_refused_by_name() -> None:
    with pytest.raises(HeaderError, match="brokerId"):
        decode_header(make_request(1002, 1, CLUSTER | {"designateElect": "true"}), ElectMasterRequestHeader)
