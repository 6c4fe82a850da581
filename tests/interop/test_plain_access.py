"""Access control of 4.9 (plain_acl.yml): the same file and the same requests at Java's broker of 4.9.7 and at ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, MqAdmin
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.wire import Wire, pull_ext, query_ext, send_ext
from proof.reader.frames import Frame, frame, header
from tests.interop.signed import HEARTBEAT, OFFSET, SETTINGS, Asked, signed

pytestmark = pytest.mark.java
OPAQUE = 470_011
EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "
FILE = """\
globalWhiteRemoteAddresses:
- 10.9.9.*
accounts:
- accessKey: rootroot
  secretKey: rootrootpw12
  admin: true
- accessKey: narrowroot
  secretKey: narrowrootpw12
  admin: true
  topicPerms: [T1=PUB]
- accessKey: trusted1
  secretKey: trusted1pw12
  whiteRemoteAddress: 127.0.0.1
- accessKey: nothing
  secretKey: nothingpw12
- accessKey: producer
  secretKey: producerpw12
  defaultTopicPerm: PUB
  topicPerms: [T2=DENY, T3=SUB]
- accessKey: consumer
  secretKey: consumerpw12
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
  groupPerms: [h=DENY]
- accessKey: someboth
  secretKey: someboth pw
  defaultGroupPerm: DENY
  topicPerms: [T1=PUB|SUB, "%RETRY%k=SUB"]
  groupPerms: [g=SUB]
"""
WHO = ("rootroot", "narrowroot", "trusted1", "nothing", "producer", "consumer")
CREATE = {"topic": "New", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
CREATE |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
TO_RETRY = {**send_ext("%RETRY%g"), "a": "h"}
REQUESTS: list[tuple[int, dict[str, str] | None, Any]] = [
    (310, send_ext("T1"), b"x"),
    (310, send_ext("T2"), b"x"),
    (310, send_ext("T3"), b"x"),
    (310, send_ext("RMQ_SYS_TRACE_TOPIC"), b"x"),
    (310, TO_RETRY, b"x"),
    (320, {**send_ext("T2"), "m": "true"}, b""),
    (11, pull_ext("T1", 0, 0, consumerGroup="g"), None),
    (11, pull_ext("T1", 0, 0, consumerGroup="h"), None),
    (11, pull_ext("%RETRY%g", 0, 0, consumerGroup="g"), None),
    (12, query_ext("T1", "k"), None),
    (14, OFFSET, None),
    (15, {**OFFSET, "commitOffset": "0"}, None),
    (17, CREATE, None),
    (29, {"topic": "T1", "queueId": "0", "timestamp": "0"}, None),
    (34, {}, HEARTBEAT),
    (35, {"clientID": "c", "consumerGroup": "h"}, None),
    (35, {"clientID": "c", "producerGroup": "p"}, None),
    (36, {"offset": "0", "group": "h", "delayLevel": "0"}, None),
    (38, {"consumerGroup": "h"}, None),
    (207, {"groupName": "nogroup"}, None),
    (215, {"topic": "notopic"}, None),
    (9999, {}, None),
]
UNSIGNED = [
    Asked("", 310, send_ext("T1"), b"x"),
    Asked("", 28),
    Asked("nobody12", 310, send_ext("T1"), b"x"),
    Asked("rootroot", 310, send_ext("T1"), b"x", "a wrong secret"),
    Asked("trusted1", 310, send_ext("T1"), b"x", "a wrong secret"),
    Asked("someboth", 310, send_ext("T1"), b"x", "someboth pw"),
    Asked("someboth", 310, send_ext("T2"), b"x", "someboth pw"),
    Asked("someboth", 36, {"offset": "0", "group": "k", "delayLevel": "0"}, None, "someboth pw"),
    Asked("someboth", 36, {"offset": "0", "group": "j", "delayLevel": "0"}, None, "someboth pw"),
]


def run(port: int) -> list[tuple[Asked, Frame]]:
    """All requests, each on its own connection."""
    found = []
    for asked in [*UNSIGNED, *(Asked(who, *request) for who in WHO for request in REQUESTS)]:
        with Wire(port) as wire:
            ext, body = signed(asked)
            wire.socket.sendall(frame(header(asked.code, ext, OPAQUE), body))
            answer = wire.read()
            while answer is not None and answer.opaque != OPAQUE:  # told that a group has changed
                answer = wire.read()
            assert answer is not None, asked
            found.append((asked, answer))
    return found


def told(asked: Asked, answer: Frame) -> tuple[Any, ...]:
    """What must be the same: the text of a refusal without the line of Java's code; of what is let in, that it is."""
    remark = answer.remark or ""
    if answer.code == 1 and remark.startswith(EXCEPTION):
        text = remark.partition(", org.apache.")[0]
        # Of a topic and a group that are both denied, Java names the one that comes first in a HashMap.
        both = asked.code in (11, 15, 34)
        return (asked, text.partition(" for ")[0] if both else text)
    return (asked, "let in")


def test_our_broker_decides_as_rocketmqs(tmp_path: Path) -> None:
    for home in ("ours", "java"):
        (tmp_path / home / "conf").mkdir(parents=True)
        (tmp_path / home / "conf" / "plain_acl.yml").write_text(FILE, encoding="ascii")
    settings = {"aclEnable": "true", "aclFolder": str(tmp_path / "ours" / "conf")}
    ours = OurBroker(tmp_path / "ours", "", settings)
    try:
        of_ours = run(ours.port)
    finally:
        assert ours.stop() == 0, ours.output()
    java = JavaBroker(tmp_path / "java", "", {"aclEnable": "true"}, version=OLD_BROKER_VERSION)
    try:
        of_java = run(java.port)
    finally:
        java.kill()
    decided = [told(*each) for each in of_ours]
    both = zip(decided, [told(*each) for each in of_java], strict=True)
    assert [pair for pair in both if pair[0] != pair[1]] == []
    assert {text != "let in" for _, text in decided} == {True, False}


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
@pytest.mark.parametrize("version", [OLD_BROKER_VERSION, BROKER_VERSION])
def test_admins_and_producers_of_java_sign_for_both_kinds_of_accounts(
    tmp_path: Path, version: str, binary: bool
) -> None:
    """mqadmin's sendMessage is a DefaultMQProducer with an AclClientRPCHook."""
    accounts = tmp_path / "accounts"
    accounts.mkdir()
    (accounts / "plain_acl.yml").write_text(FILE, encoding="ascii")
    namesrv = OurNameServer(tmp_path / "namesrv")
    try:
        for name, settings, key, secret in (
            ("plain", {"aclEnable": "true", "aclFolder": str(accounts)}, "rootroot", "rootrootpw12"),
            ("users", SETTINGS, "root", "rootpw12"),
        ):
            conf = tmp_path / name / "conf"
            conf.mkdir(parents=True)
            (conf / "tools.yml").write_text(f"accessKey: {key}\nsecretKey: {secret}\n", encoding="ascii")
            broker = OurBroker(tmp_path / f"{name}-broker", namesrv.address, settings)
            admin = MqAdmin(tmp_path / name, namesrv.address, version, binary_header=binary)
            try:
                made = admin.run("updateTopic", "-b", broker.address, "-t", "T1", "-r", "1", "-w", "1")
                assert f"create topic to {broker.address} success" in made
                assert "SEND_OK" in admin.run("sendMessage", "-t", "T1", "-p", "signed")
            finally:
                admin.close()
                assert broker.stop() == 0, broker.output()
    finally:
        assert namesrv.stop() == 0, namesrv.output()
