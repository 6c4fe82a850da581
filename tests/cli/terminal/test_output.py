"""Exit codes follow one table, for every verb there is."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tools.generate_commands import within

from bolide.cli import main as cli
from bolide.cli.main import command as whole
from bolide.cli.terminal import output
from bolide.cli.terminal.moment import moment_of
from bolide.cli.terminal.output import FAILED, UNREACHABLE, USAGE
from bolide.testing.broker import Broker
from bolide.version import VERSION
from tests.cli.running import invoke

NOWHERE = "127.0.0.1:1"
ARGUMENTS = {
    "queue_id": "0",
    "offset": "0",
    "to": "first",
    "message_id": "7F00000100002A9F0000000000000000",
    "broker": "nobody",
    "file": str(Path(__file__).with_name("declared_nobody.json")),
    "id_": "1",
    "target": "nobody",
    "settings": "orderMessageEnable=false",
    "handle": base64.urlsafe_b64encode(b"v1 nowhere nobody 4102444800000 0A0B0C0D0E0F10111213141516171819").decode(),
}
"""What stands for an argument that is more than a name."""
GIVEN = {
    ("user", "create"): ["--password-stdin"],
    ("user", "change"): ["--disable"],
    ("policy", "create"): ["--action", "Pub"],
    ("policy", "change"): ["--deny"],
    ("cluster", "restart"): ["--settle", "0"],
    ("dead-letter", "resend"): ["--all"],
}
"""Options without which a verb asks nothing, or waits half a minute."""
ON_SPARK = ("pipeline", "spark", "bench spark")
MADE_BY_USE = (
    "produce",
    "consume",
    "topic create",
    "group create",
    "bench send",
    "bench pull",
    "namesrv kv put",
    "namesrv kv list",
    "namesrv config",
    "store snapshot",
)
"""Verbs for which nothing can be absent, or that make what is, or wait for it."""


def asking() -> list[tuple[str, ...]]:
    """The verbs that ask servers, with their arguments."""
    found = []
    for path, command in within(whole()):
        if " ".join(path).startswith(ON_SPARK) or not any(each.name == "namesrv" for each in command.params):
            continue
        named = []
        for each in command.params:
            if each.required:
                flag = each.opts[:1] if each.param_type_name == "option" else []
                words = {**ARGUMENTS, "to": "1"} if path == ("cluster", "switch") else ARGUMENTS  # the id of a broker
                named += [*flag, words.get(each.name, "nothing")]
        named += ["a body"] if path == ("produce",) else GIVEN.get(path, [])
        yes = ["--yes"] if any(each.name == "yes" for each in command.params) else []
        found.append((*path, *named, *yes))
    return found


def run(*words: str) -> tuple[int, str]:
    """Exit code and what was said."""
    done = invoke(*words, typed="x\n")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_there_are_verbs_to_try() -> None:
    assert len(asking()) > 20


@pytest.mark.parametrize("words", asking(), ids=" ".join)
def test_a_server_nobody_can_reach(words: tuple[str, ...]) -> None:
    code, said = run(*words, "-n", NOWHERE)
    assert (code, NOWHERE in said) == (UNREACHABLE, True), said


@pytest.mark.parametrize("words", asking(), ids=" ".join)
def test_an_address_that_is_not_one(words: tuple[str, ...]) -> None:
    code, said = run(*words, "-n", "nonsense")
    assert (code, "host:port" in said) == (USAGE, True), said


@pytest.mark.parametrize("words", [each for each in asking() if len(each) > 2], ids=" ".join)
def test_missing_object_is_one_error(words: tuple[str, ...], bolide_broker: Broker) -> None:
    if " ".join(words).startswith(MADE_BY_USE):
        return
    code, said = run(*words, "-n", bolide_broker.namesrv_addr)
    assert (code, said.count("bolide: ")) == (FAILED, 1), said


ADDRESSES = [("DefaultCluster", "broker-a", "127.0.0.1:45911 127.0.0.1:45921", 0.5, 1_250)]
COLUMNS = ("Cluster", "Broker", "Addresses", "Put/s", "Messages")


@pytest.mark.parametrize(
    "words",
    [("message", "find", "T", "\udcff"), ("message", "trace", "0", "--trace-topic", "\udcff")],
    ids=["find", "trace"],
)
def test_argument_that_is_not_utf_8_is_wrong_usage(words: tuple[str, ...], bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    done = invoke(*words, "-n", bolide_broker.namesrv_addr)
    assert (done.exit_code, "'\\udcff' is not UTF-8" in done.output) == (USAGE, True)


def test_a_narrow_terminal_breaks_no_value(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (50, 62, 70, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        output.table("Brokers", COLUMNS, ADDRESSES, False)
        said = capsys.readouterr().out
        for word in ("DefaultCluster", "broker-a", "127.0.0.1:45911", "127.0.0.1:45921", "1,250"):
            assert word in said, (width, said)


def test_rows_stay_on_one_line_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    output.table("Brokers", COLUMNS, [(*ADDRESSES[0][:2], "127.0.0.1:45911 " * 20, 0.5, 1_250)], False)
    assert any(line.count("127.0.0.1:45911") == 20 for line in capsys.readouterr().out.splitlines())


def test_json_has_plain_names_numbers_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(0.5, output.moment(1_772_323_200_000), output.moment(0))]
    output.table("Brokers", ("Put/s", "Last stored", "Oldest"), rows, True)
    assert json.loads(capsys.readouterr().out) == [
        {"put_per_second": 0.5, "last_stored": 1_772_323_200_000, "oldest": None}
    ]


def test_flags_are_shown_without_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.command()(["topic", "list", "--help"])
    said = capsys.readouterr().out
    assert "--system" in said and "TEXT" in said and "<str>" not in said and "<bool>" not in said


def test_the_version_is_an_option_too() -> None:
    assert invoke("--version").output == f"bolide {VERSION}\n"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0 s"),
        (1_390, "1.4 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_725_000, "1 h 2 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_span_is_shown_in_units(capsys: pytest.CaptureFixture[str], milliseconds: int, text: str) -> None:
    span = output.Span(milliseconds)
    assert str(span) == text
    output.table("T", ("Lag time",), [(span,)], False)
    assert text in capsys.readouterr().out
    output.table("T", ("Lag time",), [(span,)], True)
    assert json.loads(capsys.readouterr().out) == [{"lag_time": milliseconds}]


def test_error_under_json_is_an_object() -> None:
    done = invoke("topic", "show", "nothing", "--json", "--namesrv", NOWHERE)
    told = json.loads(done.stderr)
    assert (done.exit_code, told["exit_code"]) == (UNREACHABLE, UNREACHABLE)
    assert "cannot be reached" in told["error"]
    done = invoke("topic", "show", "nothing", "--namesrv", NOWHERE)
    assert done.stderr.startswith("bolide: ")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["topic", "show", "--json"], "Missing argument"),
        (["topic", "list", "--json", "--nonsense"], "No such option"),
        (["message", "find", "T", "k", "--count", "many", "--json"], "--count"),
        (["message", "find", "T", "k", "--count", "65", "--json"], "--count"),
        (["offset", "shw", "--json"], "No such command"),
        (["--nonsense", "topic", "list", "--json"], "No such option"),
        (["--context", "a", "topic", "list", "--json", "-n", NOWHERE], "exclude each other"),
    ],
)
def test_wrong_usage_under_json_is_an_object(words: list[str], text: str) -> None:
    done = invoke(*words)
    told = json.loads(done.stderr)
    assert (done.exit_code, told["exit_code"], done.stdout) == (USAGE, USAGE, "")
    assert text in told["error"]
    plain = invoke(*(word for word in words if word != "--json"))
    assert plain.exit_code == USAGE and text in plain.stderr and '{"error"' not in plain.stderr


def test_a_word_after_two_dashes_is_not_the_option() -> None:
    done = invoke("topic", "show", "--nonsense", "--", "--json")
    assert (done.exit_code, '{"error"' in done.stderr) == (USAGE, False)


def test_times_have_a_zone_and_a_form_that_options_take() -> None:
    text = str(output.Moment(1_795_868_760_000))
    assert moment_of("--start", text) == datetime.fromtimestamp(1_795_868_760, UTC)


@pytest.mark.parametrize("command", [["group", "show", "--help"], ["version"]])
def test_no_color_leaves_no_escape(command: list[str]) -> None:
    environ = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "bolide.cli", *command], capture_output=True, text=True, check=True, env=environ
    )
    assert "\x1b" not in done.stdout
    assert "<str>" not in done.stdout


def test_no_color_table_has_no_escape() -> None:
    program = "from bolide.cli.terminal import output; output.table('T', ('A', 'B'), [('x', 1)], False)"
    environ = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert "\x1b" not in done.stdout


def test_long_name_leaves_room_for_other_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output.pairs("Broker b", {"commitLogDiskRatio_/" + "x" * 90: "0.21", "brokerRole": "SYNC_MASTER"}, False)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "SYNC_MASTER" in line]
    assert len(line.rstrip()) <= 80


@pytest.mark.parametrize("verb", ["consume", "broker", "message find", "cluster config", "store repair"])
def test_help_names_values_by_words(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.command()([*verb.split(), "--help"])
    shown = capsys.readouterr().out
    assert any(word in shown for word in ("TEXT", "NUMBER", "PATH"))
    assert re.findall(r"<(?:str|int|float|file|path|list)[^>]*>", shown) == []
