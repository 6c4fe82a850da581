"""`bolide cluster export` and `cluster apply`: what one cluster keeps becomes what another has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.cli.access import Signed, guarded
from tests.cli.running import invoke
from tests.client.patient_blocking import Producer


@pytest.fixture(scope="module")
def admin() -> Iterator[Signed]:
    with guarded() as signed:
        signed("user", "create", "alice", "--password-stdin", typed="alice-secret\n")
        signed("policy", "create", "alice", "Topic:orders", "-a", "Pub", "--from", "10.0.0.0/8")
        signed("topic", "create", "orders", "--queues", "3", "--attribute", "+message.type=FIFO", "--order")
        signed("topic", "create", "plain", "--queues", "1", "--perm", "4")
        signed("group", "create", "billing", "--retries", "5", "--orderly")
        yield signed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.json"


def write(file: Path, exported: Any) -> str:
    """The path of the file, with this in it."""
    file.write_text(json.dumps(exported))
    return str(file)


def test_export_omits_system_rows_and_passwords(admin: Signed) -> None:
    said = admin("cluster", "export")
    assert "secret" not in said and said == admin("cluster", "export")
    exported = json.loads(said)
    (broker,) = exported["brokers"].values()
    assert exported["bolide"] == 1 and list(exported["brokers"]) == ["broker-a"]
    assert set(broker) == {"topics", "groups", "users", "policies"}
    assert (list(broker["topics"]), list(broker["groups"])) == (["orders", "plain"], ["billing"])
    assert broker["users"] == {
        "admin": {"userStatus": "enable", "userType": "Super"},
        "alice": {"userStatus": "enable", "userType": "Normal"},
    }
    entry = {"actions": ["Pub"], "decision": "Allow", "sourceIps": ["10.0.0.0/8"]}
    assert broker["policies"] == {"alice": {"Topic:orders": entry}}
    assert yaml.safe_load(admin("cluster", "export", "--format", "yaml")) == exported


def test_a_second_apply_has_nothing_to_do(admin: Signed, file: Path) -> None:
    words = ("cluster", "apply", write(file, admin.answer("cluster", "export")), "--prune", "--yes")
    assert "nothing to do: the brokers have what the file says" in admin(*words)


def test_changes_are_planned_then_done_and_undone(admin: Signed, file: Path) -> None:
    before = admin.answer("cluster", "export")
    wanted = json.loads(json.dumps(before))
    broker = wanted["brokers"]["broker-a"]
    broker["topics"]["orders"] |= {"perm": 4, "attributes": {}, "order": False}
    broker["topics"]["new"] = {"readQueueNums": 2, "writeQueueNums": 2}
    broker["groups"]["billing"]["retryMaxTimes"] = 7
    broker["groups"]["audit"] = {}
    broker["users"]["alice"]["userStatus"] = "disable"
    broker["policies"]["alice"]["Topic:orders"] |= {"decision": "Deny"}
    broker["policies"]["alice"]["Default Group:*"] = {"actions": ["Sub"]}
    words = ("cluster", "apply", write(file, wanted))
    rows = admin.rows(*words)
    assert [(row["action"], row["what"], row["name"]) for row in rows] == [
        ("create", "topic", "new"),
        ("change", "topic", "orders"),
        ("create", "group", "audit"),
        ("change", "group", "billing"),
        ("create", "policy", "alice Default Group:*"),
        ("change", "policy", "alice Topic:orders"),
        ("change", "user", "alice"),
    ]
    assert rows[3]["settings"] == "retryMaxTimes 5 -> 7"
    assert "7 changes are planned; write --yes" in admin(*words)
    assert admin.answer("cluster", "export") == before
    assert "7 changes are done" in admin(*words, "--yes")
    after = admin.answer("cluster", "export")["brokers"]["broker-a"]
    assert after["topics"]["orders"] == broker["topics"]["orders"]
    assert (after["users"], set(after["policies"]["alice"])) == (broker["users"], {"Topic:orders", "Default Group:*"})
    assert "nothing to do" in admin(*words, "--yes", "--prune")
    back = ("cluster", "apply", write(file, before), "--yes")
    assert [row["action"] for row in admin.rows(*back[:-1])] == ["change"] * 4
    admin(*back)
    assert "new" in admin.answer("cluster", "export")["brokers"]["broker-a"]["topics"]
    assert "3 changes are done" in admin(*back, "--prune")
    assert admin.answer("cluster", "export") == before


def test_invalid_declaration_is_rejected_before_any_change(admin: Signed, file: Path) -> None:
    before = admin.answer("cluster", "export")

    def refused(code: int, *words: str, **broker: Any) -> str:
        wanted = {"bolide": 1, "brokers": {"broker-a": {"topics": {"x": TOPIC}, **broker}}}
        said = admin("cluster", "apply", write(file, wanted), "--yes", *words, code=code)
        assert said.count("bolide: ") == 1
        return said

    assert "unknown field `topcis` - at `$.brokers[...]`" in refused(2, topcis={})
    assert "unknown field `prem` - at `$.brokers[...].topics[...]`" in refused(2, topics={"x": {**TOPIC, "prem": 4}})
    assert "$.brokers[...].topics[...].perm" in refused(2, topics={"x": {**TOPIC, "perm": 9}})
    assert "broker-a has no user bob, and the file has no passwords" in refused(1, users={"bob": {}})
    entry = {"Topic:x": {"actions": ["Pub"]}}
    assert "broker-a has no user bob, for whom the file has policies" in refused(1, policies={"bob": entry})
    assert "no enabled Super user left" in refused(1, "--prune", users={"alice": {}})
    assert "no enabled Super user left" in refused(1, users={"admin": {"userType": "Normal"}})
    assert admin.answer("cluster", "export") == before


TOPIC = {"readQueueNums": 1, "writeQueueNums": 1}


def test_a_file_that_cannot_be_read_is_told(admin: Signed, file: Path) -> None:
    assert f"{file}: No such file" in admin("cluster", "apply", str(file), code=1)
    for name, text in (("a.json", "{"), ("a.yaml", "a: [")):
        other = file.with_name(name)
        other.write_text(text)
        assert str(other) in admin("cluster", "apply", str(other), code=2)


def test_offsets_move_from_one_cluster_to_another_that_has_no_users(file: Path) -> None:
    def run(broker: Broker, *words: str) -> str:
        done = invoke(*words, "-n", broker.namesrv_addr)
        assert done.exit_code == 0, done.output
        return done.stdout

    with Broker() as old, Broker() as new:
        with Producer("P", old.namesrv_addr) as producer:
            run(old, "topic", "create", "moved", "--queues", "1")
            producer.send(Message("moved", b"x"))
        run(old, "group", "create", "movers")
        run(old, "offset", "reset", "movers", "moved", "last", "--yes")
        exported = json.loads(run(old, "cluster", "export", "--offsets"))
        (broker,) = exported["brokers"].values()
        assert broker["offsets"] == {"movers": {"moved": {"0": 1}}}
        assert "users" not in broker and "policies" not in broker
        assert "offsets" not in run(old, "cluster", "export")
        words = ("cluster", "apply", write(file, exported), "--yes", "--prune")
        (*_, last) = json.loads(run(new, *words, "--json"))
        assert (last["what"], last["name"], last["settings"]) == ("offset", "movers moved 0", "offset 1")
        assert json.loads(run(new, "cluster", "export", "--offsets")) == exported
        assert json.loads(run(new, *words, "--json")) == []
