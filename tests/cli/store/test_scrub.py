"""`bolide store scrub`: a running broker's scrub is shown, paused, and started, and damage fails the command."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from bolide.cli.store.scrub import app
from bolide.client import Message
from bolide.client.blocking import Producer
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until

RUNNER = CliRunner()


def scrub(broker: Broker, verb: str) -> tuple[int, dict[str, object]]:
    done = RUNNER.invoke(app, [verb, "broker-a", "--namesrv", broker.namesrv_addr, "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, json.loads(done.output)


def test_scrub_is_paused_and_started() -> None:
    with Broker() as broker:
        assert scrub(broker, "status")[1]["state"] == "waiting"
        assert scrub(broker, "pause")[1]["state"] == "paused"
        assert scrub(broker, "status")[1]["state"] == "paused"
        assert scrub(broker, "start")[1]["state"] == "waiting"


def test_running_broker_reports_the_damage_that_its_scrub_finds(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with Broker(store) as broker, Producer("P", broker.namesrv_addr) as producer:
        for number in range(50):
            producer.send(Message("T", b"message %d" % number, keys=[f"K{number}"]))
    (log,) = (Path(store) / "commitlog").glob("0" * 20)
    with Broker(store, clean_start_check_size=0, max_hash_slot_num=10_000) as broker:
        # Until the first flush after the start, a pass finds nothing to check.
        wait_until(lambda: passes(broker) or scrub(broker, "start")[1]["state"] == "running")
        wait_until(lambda: scrub(broker, "status")[1]["state"] == "resting")
        code, told = scrub(broker, "status")
        assert (code, told["findings"]) == (0, 0)
        assert told["checked_bytes"] == told["total_bytes"]
        with log.open("r+b") as file:
            data = file.read(1 << 16)
            file.seek(data.index(b"message 17"))
            file.write(b"massage 17")
        done = passes(broker)
        assert scrub(broker, "start")[0] == 0
        wait_until(lambda: passes(broker) > done)
        code, told = scrub(broker, "status")
        assert (code, told["findings"]) == (1, 1)
        assert isinstance(told["listed"], list)
        assert told["listed"][0].startswith(f"commitlog/{0:020}, byte ")
        assert "does not match its CRC" in told["listed"][0]
        table = RUNNER.invoke(app, ["status", "broker-a", "--namesrv", broker.namesrv_addr], env={"COLUMNS": "200"})
        assert table.exit_code == 1
        assert "Findings" in table.output and "does not match its CRC" in table.output


def passes(broker: Broker) -> int:
    found = scrub(broker, "status")[1]["passes"]
    assert isinstance(found, int)
    return found
