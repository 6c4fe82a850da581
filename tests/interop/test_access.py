"""Access control of 5.x: the same requests to Java's broker and to ours, and mqadmin's verbs against ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import DriverError, JavaBroker, MqAdmin
from proof.interop.matrix import PROGRAM
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.wire import Wire, pull_ext, query_ext, send_ext
from proof.reader.frames import VERSION_5_5_0, Frame
from tests.interop.signed import HEARTBEAT, OFFSET, SETTINGS, Asked, signed

pytestmark = [
    pytest.mark.java,
    pytest.mark.matrix(feature="access control", version=BROKER_VERSION, direction=PROGRAM),
]


def policy(*entries: tuple[str, str, str], kind: str = "Custom", sources: tuple[str, ...] = ()) -> dict[str, Any]:
    """A body of 3006: resource, actions, decision."""
    found = [
        {"resource": resource, "actions": actions.split(","), "decision": decision}
        | ({"sourceIps": list(sources)} if sources else {})
        for resource, actions, decision in entries
    ]
    return {"policies": [{"policyType": kind, "entries": found}]}


ALICE = {"subject": "User:alice"}
SEND = send_ext("T1")
CASES: dict[tuple[tuple[tuple[str, str, str], ...], tuple[str, ...], str], None] = dict.fromkeys(
    [
        ((("Topic:T*", "Pub", "Allow"), ("Topic:T1", "Pub", "Deny")), (), "Custom"),
        ((("Topic:T*", "Pub", "Deny"), ("Topic:T1", "Pub", "Allow")), (), "Custom"),
        ((("*", "Pub", "Allow"), ("Topic:*", "Pub", "Deny")), (), "Custom"),
        ((("*", "Pub", "Deny"), ("Topic:*", "Pub", "Allow")), (), "Custom"),
        ((("Topic:T1", "Sub", "Deny"), ("Topic:T*", "Pub", "Allow")), (), "Custom"),
        ((("Topic:T1", "Pub", "Allow"), ("Topic:T1", "Pub", "Deny")), (), "Custom"),
        ((("Topic:T1", "Pub", "Deny"), ("Topic:T1", "Pub", "Allow")), (), "Custom"),
        ((("Topic:T1", "Get", "Allow"),), (), "Custom"),
        ((("Topic:T1", "All", "Allow"),), (), "Custom"),
        ((("Topic:T1", "Pub", "Allow"),), ("10.0.0.0/8",), "Custom"),
        ((("Topic:T1", "Pub", "Allow"),), ("127.0.0.0/8", "10.0.0.1"), "Custom"),
        ((("Topic:*", "Pub", "Allow"),), (), "Default"),
        ((("Group:T1", "Pub", "Allow"),), (), "Custom"),
        ((("Topic:T", "Pub", "Allow"), ("Topic:T11*", "Pub", "Deny"), ("Topic:T1*", "Pub", "Allow")), (), "Custom"),
    ]
)
"""What alice's only policies are, each tried with a send to T1."""

USERS = [
    Asked("", 310, SEND),
    Asked("", 310),
    Asked("nobody", 310, SEND),
    Asked("root", 310, SEND, secret="wrong"),
    Asked("root", 310, SEND),
    Asked("", 9999, {}),
    Asked("root", 9999, {}),
    Asked("root", 3001, {"username": ""}, {"password": "p"}),
    Asked("root", 3001, {"username": "alice"}, {"username": "alice", "password": "alicepw12", "userType": "Normal"}),
    Asked("root", 3001, {"username": "alice"}, {"password": "x"}),
    Asked("root", 3001, {"username": "bob"}, {"password": ""}),
    Asked("root", 3001, {"username": "carol"}, {"password": "carolpw12", "userType": "Super"}),
    Asked("root", 3001, {"username": "dave"}, {"password": "davepw12", "userType": "Boss", "userStatus": "disable"}),
    Asked("dave", 310, SEND),
    Asked("root", 3002, {"username": "zed"}, {"password": "x"}),
    Asked("root", 3002, {"username": "dave"}, {"userStatus": "enable"}),
    Asked("root", 3004, {"username": "dave"}),
    Asked("root", 3004, {"username": "zed"}),
    Asked("root", 3004, {"username": " "}),
    Asked("root", 3005, {}),
    Asked("root", 3005, {"filter": "a"}),
    Asked("root", 3005, {"filter": "zzz"}),
    Asked("alice", 3005, {}),
    Asked("root", 3006, ALICE, policy(("Cluster:*", "Get,Update", "Allow"))),
    Asked("alice", 3005, {"filter": "al"}),
    Asked("alice", 3001, {"username": "eve"}, {"password": "evepw12", "userType": "Super"}),
    Asked("alice", 3002, {"username": "root"}, {"password": "minepw12"}),
    Asked("alice", 3002, {"username": "alice"}, {"userType": "Super"}),
    Asked("alice", 3003, {"username": "root"}),
    Asked("root", 3003, {"username": ""}),
    Asked("root", 3003, {"username": "dave"}),
    Asked("root", 3003, {"username": "dave"}),
    Asked("dave", 310, SEND),
]
POLICIES = [
    Asked("root", 3008, ALICE),
    Asked("root", 3008, ALICE),
    Asked("root", 3008, {"subject": "User:zed"}),
    Asked("root", 3009, ALICE),
    Asked("root", 3009, {"subject": "User:zed"}),
    Asked("root", 3006, {"subject": "User:zed"}, policy(("Topic:T", "Pub", "Allow"))),
    Asked("root", 3006, ALICE, policy(("T", "Pub", "Allow"))),
    Asked("root", 3006, ALICE, policy(("Topic:T", "Nothing", "Allow"))),
    Asked("root", 3006, ALICE, policy(("Topic:T", "Any", "Allow"))),
    Asked("root", 3006, ALICE, policy(("Topic:T", "Pub", "Perhaps"))),
    Asked("root", 3006, ALICE, policy(("Topic:T", "Pub", "Allow"), sources=("1.2.3.*",))),
    Asked("root", 3006, ALICE, policy(("Topic:T", "Pub", "Allow"), sources=("10.0.0.0/33",))),
    Asked("root", 3006, ALICE, policy(("Topic:T1", "pub,SUB", "allow"), ("Group:g*", "Sub", "Allow"))),
    Asked("root", 3009, ALICE),
    Asked("root", 3007, ALICE, policy(("Topic:T1", "Pub", "Deny"), ("Topic:T2", "Pub", "Allow"))),
    Asked("root", 3007, ALICE, policy(("Topic:*", "Get", "Allow"), kind="Default", sources=("127.0.0.1", "::1"))),
    Asked("root", 3009, ALICE),
    Asked("root", 3010, {}),
    Asked("root", 3010, {"subjectFilter": "ali", "resourceFilter": "T2"}),
    Asked("root", 3010, {"subjectFilter": "zzz"}),
    Asked("root", 3008, {**ALICE, "resource": "Topic:T1"}),
    Asked("root", 3008, {**ALICE, "policyType": "Default", "resource": "Topic:*"}),
    Asked("root", 3009, ALICE),
]
LOCKS = {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "T1", "brokerName": "broker-a", "queueId": 0}]}
BOTH = {"topic": "T1", "group": "g"}
CREATE = {"topic": "New", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
CREATE |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
PERMISSIONS = [
    Asked("alice", 310, SEND),
    Asked("alice", 310, send_ext("%RETRY%g")),
    Asked("alice", 320, {**SEND, "m": "true"}, b""),
    Asked("alice", 11, pull_ext("T1", 0, 0, consumerGroup="g")),
    Asked("alice", 11, pull_ext("%RETRY%g", 0, 0, consumerGroup="g")),
    Asked("alice", 11, pull_ext("%DLQ%g", 0, 0, consumerGroup="g")),
    Asked("alice", 12, query_ext("T1", "k")),
    Asked("alice", 14, OFFSET),
    Asked("alice", 15, {**OFFSET, "commitOffset": "0"}),
    Asked("alice", 17, CREATE),
    Asked("alice", 29, {"topic": "T1", "queueId": "0", "timestamp": "0"}),
    Asked("alice", 30, {"topic": "T1", "queueId": "0"}),
    Asked("alice", 31, {"topic": "T1", "queueId": "0"}),
    Asked("alice", 33, {"topic": "T1", "offset": "99999"}),
    Asked("alice", 34, {}, HEARTBEAT),
    Asked("alice", 35, {"clientID": "c", "consumerGroup": "g"}),
    Asked("alice", 36, {"offset": "0", "group": "g", "delayLevel": "0"}),
    Asked("alice", 38, {"consumerGroup": "g"}),
    Asked("alice", 41, {}, LOCKS),
    Asked("alice", 42, {}, LOCKS),
    Asked("alice", 202, {"topic": "T1"}),
    Asked("alice", 203, {"consumerGroup": "g"}),
    Asked("alice", 204, {"producerGroup": "p"}),
    Asked("alice", 207, {"groupName": "g"}),
    Asked("alice", 208, {"consumerGroup": "g", "topic": "T1"}),
    Asked("alice", 215, {"topic": "T1"}),
    Asked("alice", 222, {**BOTH, "timestamp": "0", "isForce": "true"}),
    Asked("alice", 223, BOTH),
    Asked("alice", 300, {"topic": "T1"}),
    Asked("alice", 303, BOTH),
    Asked("alice", 307, {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"}),
    Asked("alice", 309, {"consumerGroup": "g", "clientId": "c", "msgId": "x", "brokerName": "b", "topic": "T1"}),
    Asked("alice", 314, {"srcGroup": "s", "destGroup": "d", "topic": "T1", "offline": "false"}),
    Asked("alice", 315, {"statsName": "s", "statsKey": "k"}),
    Asked("alice", 317, {"isOrder": "false"}),
    Asked("alice", 321, {"topic": "T1", "queueId": "0", "index": "0", "count": "1", "consumerGroup": "g"}),
    Asked("alice", 323, {"topic": "T1", "msgId": "x"}),
    Asked("alice", 328, {}),
    Asked("alice", 343, {"group": "g"}),
    Asked("alice", 345, BOTH),
    Asked("alice", 351, {"topic": "T1"}),
    Asked("alice", 352, {"group": "g"}),
    Asked("alice", 353, {**BOTH, "readable": "true"}),
    Asked("alice", 370, {"topic": "T1", "recallHandle": "x", "producerGroup": "p"}),
]
"""What alice may not, without any policy."""
REFUSED = 16


def run(port: int) -> list[tuple[Asked, Frame]]:
    """All requests, one after the other."""
    found = []

    def ask(asked: Asked) -> None:
        with Wire(port) as wire:
            found.append((asked, wire.ask(asked.code, *signed(asked))))

    for asked in (*USERS, *POLICIES):
        ask(asked)
    for entries, sources, kind in CASES:
        ask(Asked("root", 3008, ALICE))
        ask(Asked("root", 3006, ALICE, policy(*entries, kind=kind, sources=sources)))
        ask(Asked("alice", 310, SEND))
    ask(Asked("root", 3008, ALICE))
    for asked in PERMISSIONS:
        ask(asked)
    return found


def told(asked: Asked, answer: Frame) -> tuple[Any, ...]:
    """What must be the same: of what is let in, that it is."""
    who = (asked.who, asked.code, asked.ext if asked.code != 310 else asked.ext and asked.ext["b"])
    if answer.code == REFUSED or 3000 < asked.code < 3011:
        body = json.loads(answer.body) if answer.body else None
        return (*who, answer.code, answer.remark, body)
    return (*who, "let in")


def test_our_broker_decides_as_rocketmqs(tmp_path: Path) -> None:
    ours = OurBroker(tmp_path / "ours", "", SETTINGS)
    try:
        of_ours = run(ours.port)
    finally:
        assert ours.stop() == 0, ours.output()
    java = JavaBroker(tmp_path / "java", "", SETTINGS)
    try:
        of_java = run(java.port)
    finally:
        java.kill()
    assert VERSION_5_5_0 == 513  # what is signed depends on it
    both = zip([told(*each) for each in of_ours], [told(*each) for each in of_java], strict=True)
    assert [pair for pair in both if pair[0] != pair[1]] == []


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_mqadmin_manages_users_and_policies(tmp_path: Path, binary: bool) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    broker = OurBroker(tmp_path / "broker", namesrv.address, SETTINGS)
    conf = tmp_path / "admin" / "conf"
    conf.mkdir(parents=True)
    (conf / "tools.yml").write_text("accessKey: root\nsecretKey: rootpw12\n", encoding="ascii")
    admin = MqAdmin(tmp_path / "admin", namesrv.address, binary_header=binary)
    at = ("-b", broker.address)
    try:
        assert f"create user to {broker.address} success" in admin.run("createUser", *at, "-u", "ann", "-p", "annpw12")
        assert "update user to" in admin.run("updateUser", *at, "-u", "ann", "-s", "disable")
        (line,) = [
            line.split() for line in admin.run("getUser", *at, "-u", "ann").splitlines() if line.startswith("ann")
        ]
        assert line == ["ann", "annpw12", "Normal", "disable"]
        assert "root" in admin.run("listUser", *at) and "ann" in admin.run("listUser", *at, "-f", "an")
        policies = ("-s", "User:ann", "-r", "Topic:T1,Group:g*", "-a", "Pub,Sub", "-d", "Allow")
        assert "create acl to" in admin.run("createAcl", *at, *policies)
        assert "update acl to" in admin.run("updateAcl", *at, *policies[:-1], "Deny")
        shown = admin.run("getAcl", *at, "-s", "User:ann")
        assert [line.split()[1:3] for line in shown.splitlines() if line.startswith("User:ann")] == [
            ["Custom", "Topic:T1"],
            ["Custom", "Group:g*"],
        ]
        assert "Topic:T1" in admin.run("listAcl", *at, "-s", "ann")
        assert "delete acl to" in admin.run("deleteAcl", *at, "-s", "User:ann")
        assert "delete user to" in admin.run("deleteUser", *at, "-u", "ann")
        assert f"create topic to {broker.address} success" in admin.run("updateTopic", *at, "-t", "T1")
        with pytest.raises((AssertionError, DriverError), match=r"CODE: 16|The acl is not exist"):
            admin.run("deleteAcl", *at, "-s", "User:root")
    finally:
        admin.close()
        assert broker.stop() == 0, broker.output()
        assert namesrv.stop() == 0, namesrv.output()


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_signatures_of_an_old_mqadmin(tmp_path: Path, binary: bool) -> None:
    namesrv = OurNameServer(tmp_path / "namesrv")
    broker = OurBroker(tmp_path / "broker", namesrv.address, SETTINGS)
    conf = tmp_path / "admin" / "conf"
    conf.mkdir(parents=True)
    (conf / "tools.yml").write_text("accessKey: root\nsecretKey: rootpw12\n", encoding="ascii")
    admin = MqAdmin(tmp_path / "admin", namesrv.address, OLD_BROKER_VERSION, binary_header=binary)
    try:
        printed = admin.run("updateTopic", "-b", broker.address, "-t", "T1", "-r", "1", "-w", "1")
        assert f"create topic to {broker.address} success" in printed
    finally:
        admin.close()
        assert broker.stop() == 0, broker.output()
        assert namesrv.stop() == 0, namesrv.output()
