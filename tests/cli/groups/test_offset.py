"""`bolide offset clone`: the plan, what it changes, and what it refuses."""

from __future__ import annotations

import json

from click.testing import Result

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.cli.running import invoke
from tests.client.patient_blocking import Producer, PushConsumer


def run(broker: Broker, *words: str) -> Result:
    return invoke(*words, "-n", broker.namesrv_addr)


def offsets(broker: Broker, group: str) -> list[int]:
    shown = run(broker, "offset", "show", group, "T", "--json")
    return [row["consumed"] for row in json.loads(shown.stdout)]


def fill(broker: Broker) -> None:
    run(broker, "topic", "create", "T", "--queues", "1")
    with Producer("P", broker.namesrv_addr) as producer:
        for _ in range(3):
            producer.send(Message("T", b"x"))
    for group, start in (("from", "last"), ("to", "first")):
        run(broker, "group", "create", group)
        run(broker, "offset", "reset", group, "T", start, "--yes")


def test_offsets_change_only_with_yes(bolide_broker: Broker) -> None:
    fill(bolide_broker)
    planned = run(bolide_broker, "offset", "clone", "from", "to", "T", "--json")
    assert planned.exit_code == 0, planned.output
    (row,) = json.loads(planned.stdout)
    assert (row["offset_now"], row["offset_then"]) == (0, 3)
    assert "--yes" in planned.stderr
    assert offsets(bolide_broker, "to") == [0]
    done = run(bolide_broker, "offset", "clone", "from", "to", "T", "--yes")
    assert done.exit_code == 0, done.output
    assert offsets(bolide_broker, "to") == offsets(bolide_broker, "from") == [3]


def test_a_group_without_offsets_is_refused(bolide_broker: Broker) -> None:
    fill(bolide_broker)
    for source, said in (("nobody", "there is no group nobody"), ("new", "group new has no offsets in topic T")):
        run(bolide_broker, "group", "create", "new")
        done = run(bolide_broker, "offset", "clone", source, "to", "T", "--yes")
        assert done.exit_code == 1 and said in done.stderr, done.output
    assert offsets(bolide_broker, "to") == [0]
    assert run(bolide_broker, "offset", "clone", "to", "to", "T").exit_code == 2
    assert run(bolide_broker, "offset", "clone", "from", "to", "Missing").exit_code == 1


def test_a_group_that_runs_is_refused(bolide_broker: Broker) -> None:
    fill(bolide_broker)
    consumer = PushConsumer("to", bolide_broker.namesrv_addr, client_id="runs")
    consumer.subscribe("T", "*", lambda message: None)
    with consumer:
        done = run(bolide_broker, "offset", "clone", "from", "to", "T", "--yes")
    assert done.exit_code == 1 and "runs of group to is connected" in done.stderr, done.output


def test_reset_prints_the_plan_and_changes_nothing_without_yes(bolide_broker: Broker) -> None:
    fill(bolide_broker)
    planned = run(bolide_broker, "offset", "reset", "from", "T", "first", "--json")
    (row,) = json.loads(planned.stdout)
    assert (row["offset_now"], row["offset_then"], row["again"], row["skipped"]) == (3, 0, 3, 0)
    assert "--yes" in planned.stderr
    (row,) = json.loads(run(bolide_broker, "offset", "reset", "to", "T", "last", "--json").stdout)
    assert (row["offset_now"], row["offset_then"], row["again"], row["skipped"]) == (0, 3, 0, 3)
    assert (offsets(bolide_broker, "from"), offsets(bolide_broker, "to")) == ([3], [0])
    assert run(bolide_broker, "offset", "reset", "from", "T", "first", "--yes").exit_code == 0
    assert offsets(bolide_broker, "from") == [0]
