"""`bolide dead-letter`: list, show and resend, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import Result

from bolide.client import Message, ReceivedMessage
from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE
from tests.admin.buried import bury_now
from tests.cli.running import invoke
from tests.client.patient_blocking import Admin

COUNT = 5


@pytest.fixture
def letters(bolide_broker: Broker) -> list[ReceivedMessage]:
    """Five dead letters of group G, of topic A with one queue."""
    bolide_broker.create_topic("A", queues=1)
    messages = [Message("A", b"%d" % n, keys=f"k{n}", tags="T", properties={"colour": "red"}) for n in range(COUNT)]
    return bury_now(bolide_broker, "G", *messages)


def run(broker: Broker, *words: object) -> Result:
    return invoke("dead-letter", *words, "--namesrv", broker.namesrv_addr, COLUMNS="200")


def stored(broker: Broker, topic: str) -> int:
    """The number of messages in a topic."""
    with Admin(broker.namesrv_addr) as admin:
        return sum(queue.end_offset for queue in admin.topic_stats(topic))


def test_groups_with_dead_letters(bolide_broker: Broker, letters: list[ReceivedMessage]) -> None:
    told = run(bolide_broker, "groups").stdout
    assert "│ G " in told and f"│ {COUNT} │" in " ".join(told.split())
    (row,) = json.loads(run(bolide_broker, "groups", "--json").stdout)
    assert row == {"group": "G", "dead_letters": COUNT, "newest": max(each.store_timestamp for each in letters)}


def test_pages_go_on_where_the_last_one_ended(bolide_broker: Broker, letters: list[ReceivedMessage]) -> None:
    shown: list[dict[str, Any]] = []
    more: list[object] = []
    for _ in range(COUNT):
        done = json.loads(run(bolide_broker, "list", "G", "--count", "2", "--json", *more).stdout)
        shown += done["dead_letters"]
        if done["older"] is None:
            break
        more = ["--end", done["older"]["end"], "--skip", done["older"]["skip"]]
    assert [each["body"] for each in shown] == [letter.body.decode() for letter in reversed(letters)]
    assert {each["original_topic"] for each in shown} == {"A"}
    first = run(bolide_broker, "list", "G", "--count", "2")
    assert letters[-1].offset_message_id in first.stdout and letters[0].offset_message_id not in first.stdout
    assert "there are older ones: --end " in first.stderr and "--skip" in first.stderr
    whole = run(bolide_broker, "list", "G")
    assert whole.stdout.count("│ A ") == COUNT and whole.stderr == ""
    none = run(bolide_broker, "list", "G", "--end", letters[0].store_timestamp, "--json")
    assert json.loads(none.stdout)["dead_letters"] == []


def test_one_is_shown_by_either_id(bolide_broker: Broker, letters: list[ReceivedMessage]) -> None:
    for message_id in (letters[2].offset_message_id, letters[2].message_id):
        shown = json.loads(run(bolide_broker, "show", "G", message_id, "--json").stdout)
        assert (shown["body"], shown["keys"], shown["properties"]["colour"]) == ("2", ["k2"], "red")
    absent = run(bolide_broker, "show", "G", "7F00000100002A9F00000000000000FF")
    assert (absent.exit_code, absent.stderr.count("bolide: no dead letter ")) == (1, 1)


def test_a_group_without_dead_letters_is_one_sentence(bolide_broker: Broker) -> None:
    for words in (["list", "nobody"], ["show", "nobody", "7F"], ["resend", "nobody", "--all"]):
        for yes in ([], ["--yes"]) if words[0] == "resend" else ([],):
            done = run(bolide_broker, *words, *yes)
            assert done.exit_code == 1
            assert done.stderr == (
                "bolide: group nobody has no dead letters: there is no topic %DLQ%nobody; check the group's name\n"
            )


def test_some_go_back_only_with_yes(bolide_broker: Broker, letters: list[ReceivedMessage]) -> None:
    ids = [letters[3].offset_message_id, letters[1].message_id, letters[3].offset_message_id]
    plan = run(bolide_broker, "resend", "G", *ids)
    assert plan.exit_code == 0 and plan.stdout.count("│ A ") == 2
    assert plan.stderr == "nothing is sent: write --yes to resend them\n"
    assert stored(bolide_broker, "A") == COUNT
    done = run(bolide_broker, "resend", "G", *ids, "--yes")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "2 of 2 dead letters of G are resent; they also remain in %DLQ%G\n"
    assert stored(bolide_broker, "A") == COUNT + 2
    elsewhere = run(bolide_broker, "resend", "G", ids[0], "--topic", "B", "--yes", "--json")
    told = {"group": "G", "resent": 1, "of": 1, "skipped": [], "interrupted": False}
    assert json.loads(elsewhere.stdout) == told and stored(bolide_broker, "B") == 1


def test_all_go_back_over_several_runs(bolide_broker: Broker, letters: list[ReceivedMessage]) -> None:
    plan = run(bolide_broker, "resend", "G", "--all", "--limit", 3)
    assert plan.stderr == "nothing is sent: write --yes to resend 3 dead letters of G to their original topics\n"
    (row,) = json.loads(run(bolide_broker, "resend", "G", "--all", "--json").stdout)
    assert row == {"broker": "broker-a", "queue": 0, "next_offset": 0, "end_offset": COUNT, "dead_letters": COUNT}
    done = run(bolide_broker, "resend", "G", "--all", "--limit", 3, "--yes")
    assert done.stderr.splitlines()[-1] == "3 of 3 dead letters of G are resent; they also remain in %DLQ%G"
    rest = run(bolide_broker, "resend", "G", "--all", "--yes", "--json")
    assert json.loads(rest.stdout)["resent"] == COUNT - 3
    assert stored(bolide_broker, "A") == 2 * COUNT
    for yes in ([], ["--yes"]):
        none = run(bolide_broker, "resend", "G", "--all", *yes)
        assert (none.exit_code, none.stderr.splitlines()[-1]) == (
            0,
            "all dead letters of G have been resent: --again starts at the oldest one",
        )
    again = run(bolide_broker, "resend", "G", "--all", "--again", "--yes", "--json")
    assert json.loads(again.stdout)["resent"] == COUNT


def test_without_an_original_topic_nothing_is_sent(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("%DLQ%H", queues=1)
    sent = invoke("produce", "%DLQ%H", "x", "--json", "--namesrv", bolide_broker.namesrv_addr)
    message_id = json.loads(sent.stdout)["message_id"]
    (listed,) = json.loads(run(bolide_broker, "list", "H", "--json").stdout)["dead_letters"]
    lost = run(bolide_broker, "resend", "H", listed["offset_message_id"], "--yes")
    assert lost.exit_code == 1 and "do not contain the original topic: choose one with --topic" in lost.stderr
    stopped = run(bolide_broker, "resend", "H", "--all", "--yes", "--json")
    assert json.loads(stopped.stdout)["resent"] == 0 and listed["message_id"] == message_id
    assert "0 of 1 dead letters of H are resent; dead letter " in json.loads(stopped.stderr)["error"]


@pytest.mark.parametrize(
    "words",
    [["G"], ["G", "7F", "--all"], ["G", "7F", "--again"], ["G", "7F", "--limit", "1"], ["G", "7F", "--topic", "a b"]],
)
def test_wrong_usage(words: list[str]) -> None:
    assert invoke("dead-letter", "resend", *words).exit_code == 2


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_a_run_and_the_next_one_continues(
    name: str, bolide_broker: Broker, letters: list[ReceivedMessage]
) -> None:
    words = ["dead-letter", "resend", "G", "--all", "--yes", "-n", bolide_broker.namesrv_addr]
    program = f"""
import asyncio, os, signal

import bolide.client
from bolide.cli.main import command

class Interrupted(bolide.client.Producer):
    async def send(self, message):
        if message.body == b"1":
            os.kill(os.getpid(), signal.{name})
            await asyncio.sleep(0)  # the loop handles the signal
        return await super().send(message)

bolide.client.Producer = Interrupted
command()({words!r})
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (
        130,
        f"2 of {COUNT} dead letters of G are resent, then the run was interrupted: the next run with --all"
        " continues there\n",
    )
    assert stored(bolide_broker, "A") == COUNT + 2
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert stored(bolide_broker, "A") == 2 * COUNT
