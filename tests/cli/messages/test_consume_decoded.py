"""`bolide consume` decodes bodies by a schema file or a registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.bodies.avro_data import NEW, datum
from tests.bodies.protobuf_files import descriptors, written
from tests.bodies.registry_server import registry
from tests.client.patient_blocking import Producer


def send(broker: Broker, topic: str, *bodies: bytes) -> None:
    broker.create_topic(topic, queues=1)
    with Producer("writers", broker.namesrv_addr) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def consume(broker: Broker, topic: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bolide.cli", "consume", topic, "--namesrv", broker.namesrv_addr, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_by_an_avro_schema(bolide_broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps(NEW))
    send(bolide_broker, "orders", datum(NEW, {"id": 7, "note": "é"}), b"text")
    done = consume(bolide_broker, "orders", "--count", "2", "--schema", str(file))
    assert (done.stdout, done.returncode) == ('{"id": 7, "note": "é"}\ntext\n', 0)
    assert "is not decoded: " in done.stderr
    lines = consume(bolide_broker, "orders", "--count", "2", "--schema", str(file), "--json").stdout.splitlines()
    first, second = map(json.loads, lines)
    assert first["value"] == {"id": 7, "note": "é"} and first["body"]
    assert "value" not in second and second["body"] == "text"


def test_by_a_protobuf_descriptor(bolide_broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "orders.desc"
    file.write_bytes(descriptors())
    send(bolide_broker, "protos", written("shop.Order", {"total": 2.5, "raw": "/w=="}))
    done = consume(bolide_broker, "protos", "--count", "1", "--schema", str(file), "--message", "shop.Order")
    found = json.loads(done.stdout)
    assert (found["total"], found["raw"], found["place"]) == (2.5, "ff", None)
    refused = consume(bolide_broker, "protos", "--count", "1", "--schema", str(file))
    assert (refused.stdout, refused.returncode) == ("", 2)
    assert "name one of shop.Ignored, shop.Order" in refused.stderr


def test_by_a_registry(bolide_broker: Broker) -> None:
    with registry() as served:
        head = b"\0" + served.add("orders-value", json.dumps(NEW)).to_bytes(4, "big")
        send(bolide_broker, "registered", head + datum(NEW, {"id": 7, "note": "n"}), b"plain")
        given = {"BOLIDE_REGISTRY": served.address, "BOLIDE_REGISTRY_USER": "u", "BOLIDE_REGISTRY_PASSWORD": "p"}
        done = consume(bolide_broker, "registered", "--count", "2", **given)
        assert done.stdout == '{"id": 7, "note": "n"}\nplain\n'
        assert served.asked == ["/schemas/ids/1"] and served.authorized == ["Basic dTpw"]
        served.failures = [401]
        failed = consume(bolide_broker, "registered", "--count", "1", "--registry", served.address)
        assert failed.returncode == 1 and failed.stderr.startswith("bolide: the registry http://127.0.0.1:")
        assert "returned 401" in failed.stderr and "Traceback" not in failed.stderr


def test_options_that_do_not_fit_are_named(tmp_path: Path) -> None:
    for more, text in (
        (["--message", "shop.Order"], "--message needs --schema FILE.desc"),
        (["--schema", str(tmp_path / "none.avsc")], "none.avsc cannot be read"),
        (["--schema", __file__], "ends neither in .avsc (Avro) nor in .desc (Protobuf)"),
    ):
        command = [sys.executable, "-m", "bolide.cli", "consume", "orders", "--namesrv", "127.0.0.1:1", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "") and text in done.stderr
