"""`bolide cluster export` of a Java cluster, applied to ours, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bolide.testing.broker import Broker
from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, wait_registered
from proof.kit.our_processes import OurNameServer
from proof.kit.wire import SEND_MESSAGE_V2, SUCCESS, Wire, send_ext
from tests.cli.running import invoke

pytestmark = pytest.mark.java

COMMIT = 15


def bolide(namesrv: str, *words: str) -> str:
    """What a command that succeeds prints."""
    done = invoke(*words, "-n", namesrv)
    assert done.exit_code == 0, done.output
    return done.stdout


def export(namesrv: str) -> Any:
    return json.loads(bolide(namesrv, "cluster", "export", "--offsets"))


def planned(namesrv: str, file: Path, *words: str) -> list[tuple[str, str, str]]:
    rows = json.loads(bolide(namesrv, "cluster", "apply", str(file), "--json", *words))
    return [(row["action"], row["what"], row["name"]) for row in rows]


def two_messages(port: int, topic: str) -> None:
    """In queue 1."""
    with Wire(port) as wire:
        for body in (b"a", b"b"):
            assert wire.ask(SEND_MESSAGE_V2, send_ext(topic, e="1"), body).code == SUCCESS


@pytest.mark.parametrize("version", [BROKER_VERSION, OLD_BROKER_VERSION])
def test_declaration_of_a_java_cluster_applies_to_another(tmp_path: Path, version: str) -> None:
    names = OurNameServer(tmp_path / "names")
    java = JavaBroker(tmp_path / "java", names.address, version=version)
    wait_registered(names.address)
    bolide(names.address, "topic", "create", "orders", "--queues", "3")
    bolide(names.address, "topic", "create", "plain", "--queues", "1", "--perm", "4")
    bolide(names.address, "group", "create", "billing", "--retries", "5")
    two_messages(java.port, "orders")
    with Wire(java.port) as wire:
        fields = {"consumerGroup": "billing", "topic": "orders", "queueId": "1", "commitOffset": "2"}
        assert wire.ask(COMMIT, fields).code == SUCCESS
    exported = export(names.address)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(exported))
    with Broker() as ours:
        bolide(ours.namesrv_addr, "topic", "create", "orders", "--queues", "2")
        two_messages(int(ours.broker_addr.rpartition(":")[2]), "orders")
        wanted = [
            ("change", "topic", "orders"),
            ("create", "topic", "plain"),
            ("create", "group", "billing"),
            ("create", "offset", "billing orders 1"),
        ]
        assert planned(ours.namesrv_addr, file, "--yes") == wanted
        assert planned(ours.namesrv_addr, file) == []
        assert export(ours.namesrv_addr) == exported
        bolide(ours.namesrv_addr, "group", "create", "billing", "--retries", "7")
        file.write_text(json.dumps(export(ours.namesrv_addr)))
    assert planned(names.address, file, "--yes") == [("change", "group", "billing")]
    assert planned(names.address, file, "--prune") == []
    for process in (java, names):
        process.kill()
