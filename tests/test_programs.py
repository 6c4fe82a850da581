"""The programs of the pages run, against a real broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from bolide.client import Message
from bolide.testing.broker import Broker
from proof.kit.ports import reserve_port
from proof.kit.waiting import PROCESS_PATIENCE, wait_until
from tests.client.patient_blocking import Producer, PullConsumer
from tests.page_programs import PROGRAMS, program, run


def test_first(bolide_broker: Broker) -> None:
    environment = {**os.environ, "BOLIDE_NAMESRV_ADDR": bolide_broker.namesrv_addr}
    program_file = PROGRAMS / "first.py"
    done = subprocess.run(
        [sys.executable, str(program_file)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "SEND_OK\ncoffee b'one coffee'\n", done.stderr


def test_send_and_receive(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("send_and_receive", bolide_broker)
    assert "coffee b'one coffee'" in capsys.readouterr().out


@pytest.mark.bolide_broker(
    authentication_enabled=True,
    authorization_enabled=True,
    init_authentication_user='{"username":"admin","password":"change-this-1"}',
)
def test_access_control(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("access_control", bolide_broker)
    sent, refused = capsys.readouterr().out.splitlines()
    assert sent == "SEND_OK" and "check signature failed." in refused


def test_order_consumer(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("order_consumer", bolide_broker)
    assert "[b'placed', b'paid', b'shipped']" in capsys.readouterr().out


def test_transaction(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("transaction", bolide_broker)
    assert capsys.readouterr().out == "payment-1 ROLLBACK\npayment-2 COMMIT\npayment-2 b'20 coins'\n"


@pytest.mark.bolide_broker(recall_message_enable=True)
def test_timer_message(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("timer_message", bolide_broker)
    came = capsys.readouterr().out.splitlines()
    assert sorted(came) == ["call home", "good night", "tea is ready"]  # where sends are slow the order is another one


@pytest.mark.bolide_broker(enable_property_filter=True)
def test_sql_filter(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("sql_filter", bolide_broker)
    assert capsys.readouterr().out == "[b'Cairo', b'Rome']\n"


def test_request_reply(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("request_reply", bolide_broker)
    assert capsys.readouterr().out == "b'144'\n"


def test_read_batches(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("read_batches", bolide_broker)
    assert capsys.readouterr().out == "100 read\n"


def test_message_trace(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("message_trace", bolide_broker)
    assert capsys.readouterr().out.splitlines() == [
        "Pub orders order-1 True",
        "SubAfter kitchen order-1 True",
        "SubBefore kitchen order-1 True",
    ]


def test_find_name_servers(
    bolide_broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "put back at the end")
    run("find_name_servers", bolide_broker)
    assert capsys.readouterr().out == "SEND_OK\n"


def test_typed_bodies(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("typed_bodies", bolide_broker)
    assert capsys.readouterr().out == "Typed sent\n2 coffee till-3\n"


def test_codec_by_topic(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("codec_by_topic", bolide_broker)
    out = capsys.readouterr().out
    assert out == "Order(what='coffee', count=2)\nOrder(what='tea', count=1)\n{'table': 7}\n"


def test_decide_each(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("decide_each", bolide_broker)
    assert capsys.readouterr().out == "['bad 0', 'busy 0', 'busy 1', 'good 0']\n"


def test_spans(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("spans", bolide_broker)
    assert capsys.readouterr().out == "send Spans, the first\nprocess Spans, a child\n"


def test_steer_consumer(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("steer_consumer", bolide_broker)
    assert capsys.readouterr().out == "nothing left: True\nbehind by 1\n6\n"


def test_plug_ins(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = (PROGRAMS.parent / "plugins.md").read_text()
    entry_points = "\n".join(
        line.strip() for line in page.splitlines() if line.startswith("    [") or '= "plug_ins' in line
    )
    info = tmp_path / "plug_ins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-ins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points.replace('"', "").replace("project.entry-points.", ""))
    monkeypatch.syspath_prepend(PROGRAMS)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"dispatchers": "count-topics", "broker_hooks": "no-passwords", "enable_property_filter": True}
    with Broker(**settings) as broker:
        run("plug_ins", broker)
        installed = sys.modules.pop("plug_ins")
        assert capsys.readouterr().out == "13\nb'PEK-HGH'\n"
        wait_until(lambda: installed.stored["Flights"] == 2, "the dispatcher to see both messages")


def test_tenants(
    bolide_broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where offsets of broadcasting groups are kept
    run("tenants", bolide_broker)
    assert capsys.readouterr().out == "{'acme': [b'for acme'], 'zenith': [b'for zenith']}\n"


@pytest.mark.bolide_broker(
    flush_disk_type="SYNC_FLUSH", send_thread_pool_queue_capacity=1, broker_fast_failure_enable=False
)  # no refusal for a machine that is slow by itself
def test_slow_disk_program(bolide_broker: Broker) -> None:
    program("test_with_a_slow_disk").test_send_fails_while_the_broker_is_busy(bolide_broker)


def test_fixture_program(bolide_broker: Broker) -> None:
    program("test_with_a_broker").test_an_order_is_stored(bolide_broker)


@pytest.mark.bolide_broker(enable_lmq=True, enable_multi_dispatch=True)
def test_light_queues(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    run("light_queues", bolide_broker)
    assert capsys.readouterr().out == "[b'hello all', b'hello bob']\n[b'hello all']\n"


def test_read_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = reserve_port(1)
    with Broker(metrics_exporter_type="PROM", metrics_prom_exporter_port=port) as broker:
        run("send_and_receive", broker)
        capsys.readouterr()
        program("read_metrics").main(f"127.0.0.1:{port}")
    printed = capsys.readouterr().out
    assert printed.startswith("broker: ready\n") and " 0\n" in printed


def test_worker(bolide_broker: Broker) -> None:
    """The worker of the page runs as its Deployment says, until the signal that ends a pod."""
    (text,) = re.findall("```yaml\n(.*?)```", (PROGRAMS.parent / "howto" / "worker.md").read_text("utf-8"), re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert pod["terminationGracePeriodSeconds"] > 20 + 5  # drain_timeout and what closing may take
    (port,) = container["ports"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["HEALTH"].rpartition(":")[2] == str(port["containerPort"])
    health = f"127.0.0.1:{reserve_port()}"
    given = {"NAMESRV_ADDR": bolide_broker.namesrv_addr, "HEALTH": health, "PYTHONUNBUFFERED": "1"}
    assert given.keys() - {"PYTHONUNBUFFERED"} == variables.keys()

    def answers(probe: str) -> bool:
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["name"]
        try:
            with urllib.request.urlopen(f"http://{health}{asked['path']}", timeout=PROCESS_PATIENCE) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with Producer("orders", bolide_broker.namesrv_addr) as producer:
        producer.send(Message("Orders", b"one coffee", tags="coffee", keys="order-1"))
    command = [sys.executable, str(PROGRAMS / container["command"][1])]
    environment = {**os.environ, **given}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        try:
            assert worker.stdout is not None and worker.stderr is not None
            assert worker.stdout.readline() == b"brewed one coffee\n"
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                wait_until(lambda probe=probe: answers(probe), probe)  # type: ignore[misc] # mypy knows no such lambda
            with PullConsumer("books", bolide_broker.namesrv_addr, start_from="first") as books:
                books.subscribe("Bills")
                assert [message.body for message in books.poll()] == [b"one coffee"]
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PROCESS_PATIENCE) == 0, worker.stderr.read()
        finally:
            worker.kill()
