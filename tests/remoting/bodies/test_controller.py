"""Bodies of a controller's requests, against what a running 5.5.0 wrote."""

from __future__ import annotations

import pytest

from bolide.remoting.bodies.base import Body, decode_body, encode_body
from bolide.remoting.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from bolide.remoting.bodies.route import BrokerMemberGroup
from bolide.remoting.json import parse_lenient

SET = SyncStateSet([1, 2], 2)
REPLICAS = BrokerReplicasInfo(
    {
        "broker-a": ReplicasInfo(
            1, "127.0.0.1:41110", 1, 2, [ReplicaIdentity("broker-a", 1, "127.0.0.1:41110", True)], []
        )
    }
)
ELECTED = ElectMasterResponseBody(BrokerMemberGroup("DefaultCluster", "broker-a", {1: "127.0.0.1:41110"}), [1])
EPOCHS = EpochEntryCache("DefaultCluster", "broker-a", 0, [EpochEntry(1, 0, 2142), EpochEntry(2, 2142)], 2142)
JAVA = [
    (SET, b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}'),
    (
        REPLICAS,
        b'{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"127.0.0.1:41110",'
        b'"brokerId":1,"brokerName":"broker-a"}],"masterAddress":"127.0.0.1:41110","masterBrokerId":1,'
        b'"masterEpoch":1,"notInSyncReplicas":[],"syncStateSetEpoch":2}}}',
    ),
    (
        ELECTED,
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"127.0.0.1:41110"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster"},"syncStateSet":[1]}',
    ),
    (
        EPOCHS,
        b'{"brokerId":0,"brokerName":"broker-a","clusterName":"DefaultCluster","epochList":['
        b'{"endOffset":2142,"epoch":1,"startOffset":0},'
        b'{"endOffset":9223372036854775807,"epoch":2,"startOffset":2142}],"maxOffset":2142}',
    ),
]


@pytest.mark.parametrize(("body", "java"), JAVA)
def test_bodies_of_java_are_decoded(body: Body, java: bytes) -> None:
    assert decode_body(java, type(body)) == body


@pytest.mark.parametrize(("body", "java"), JAVA)
def test_encoded_bodies_match_java(body: Body, java: bytes) -> None:
    assert parse_lenient(encode_body(body)) == parse_lenient(java)


def test_a_set_without_a_master_says_so_by_leaving_it_out() -> None:
    written = encode_body(BrokerReplicasInfo({"broker-a": ReplicasInfo(master_epoch=3)}))
    assert b"masterBrokerId" not in written
    assert b"masterAddress" not in written
    table = decode_body(written, BrokerReplicasInfo).replicas_info_table
    assert table["broker-a"] == ReplicasInfo(master_epoch=3)
