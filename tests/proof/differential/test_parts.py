"""The parts of the differential fuzzer that need no broker: sequences, shrinking, readers, the comparison, the list."""

from __future__ import annotations

import re
from pathlib import Path

from proof.differential.compare import Comparison, generalised
from proof.differential.generate import OUR_BROKER, OUR_NAMESRV, sequence
from proof.differential.listed import load
from proof.differential.run import shrunk
from proof.differential.sides import CLOSED, SILENT, Names, Side
from proof.differential.steps import Step, from_json, plainer, to_json
from proof.reader.frames import BINARY, Frame

ROOT = Path(__file__).resolve().parents[3]
NAMES = Names("ax1z", 1_795_269_600_000)


def frame(code: int = 0, remark: str | None = None, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    return Frame(code, 1, 1, remark, ext or {}, body, "JAVA", 513)


def sides() -> tuple[Side, Side]:
    return Side("ours", "127.0.0.1:1", "127.0.0.1:2"), Side("java", "127.0.0.1:3", "127.0.0.1:4")


def places(step: Step, ours: Frame | str, java: Frame | str) -> list[str]:
    return [each.at for each in Comparison(step, NAMES, *sides()).differences(ours, java)]


def test_a_seed_is_always_the_same_sequence_and_a_file_keeps_it() -> None:
    for number in range(40):
        steps = sequence(f"seed/{number}")
        assert steps == sequence(f"seed/{number}")
        assert from_json(to_json(steps)) == steps
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))


def test_every_code_that_we_answer_is_asked() -> None:
    page = (ROOT / "docs" / "request-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| \w+ \| [^|]* \| ([^|]*) \|", page, re.MULTILINE)
    by_server = {
        server: {int(code) for code, who in rows if server in who.strip().split(", ")}
        for server in ("broker", "name server")
    }
    users = set(range(3001, 3011))  # compared in tests/interop/test_access.py: here access control is off
    under_controller = {1007, 1008}  # what a controller tells a broker that is in its set
    among_a_set = {905, 906}  # what name servers and slaves tell a master: tests/interop/test_acting.py
    engines = {355, 908, 5001}  # one of each here: tests/interop/test_mqadmin_verbs.py
    silent = by_server["broker"] - OUR_BROKER - users - under_controller - among_a_set - engines
    assert silent == {27}, "27 deletes files, and no server of RocketMQ answers it"
    assert by_server["name server"] == OUR_NAMESRV
    asked = {(step.server, step.code) for number in range(900) for step in sequence(f"codes/{number}")}
    assert {("broker", code) for code in OUR_BROKER} <= asked
    assert {("namesrv", code) for code in OUR_NAMESRV} <= asked


def test_shrinking_leaves_what_the_failure_needs() -> None:
    steps = [Step(number, "broker", number) for number in range(40)]
    needed = {3, 17, 30}
    assert {step.code for step in shrunk(steps, lambda fewer: needed <= {step.code for step in fewer})} == needed
    odd = Step(1, "broker", 17, {"a": "b", "c": "d" * 50}, "e" * 50, 1, BINARY, "GO", 407, True)
    assert len(plainer(odd)) == 5 + 2 + 1 + 1


def test_placeholders_are_the_names_of_the_run_and_the_answers_of_the_side() -> None:
    ours, java = sides()
    ours.answers[4] = frame(ext={"msgId": f"7F00000100002A9F{1234:016X},x", "queueOffset": "5"})
    step = Step(5, "broker", 37, {"a": "${T0}", "o": "${physical:4}", "q": "${queueOffset:4}"}, "${now}")
    assert step.filled(lambda name, number: NAMES.value(name, number, ours)) == (
        {"a": "dfax1zT0", "o": "1234", "q": "5"},
        b"1795269600000",
    )
    assert step.filled(lambda name, number: NAMES.value(name, number, java))[0] == {"a": "dfax1zT0", "o": "0", "q": "0"}


def test_only_expected_fields_may_differ() -> None:
    step = Step(1, "broker", 310, {"b": "${T0}", "i": "a\x01b\x02"})
    one = frame(ext={"msgId": "7F000001" + "0" * 24, "queueOffset": "1", "transactionId": "A" * 32})
    other = frame(ext={"msgId": "7F000001" + "1" * 24, "queueOffset": "1", "transactionId": "B" * 32})
    assert places(step, one, other) == []
    other.ext["queueOffset"] = "2"
    assert places(step, one, other) == ["ext.queueOffset"]
    assert places(step, frame(17), frame(16)) == ["code"]
    assert places(step, frame(1, "a"), frame(1, "b")) == ["remark"]
    assert places(step, SILENT, frame()) == ["answer"]
    assert places(step, CLOSED, SILENT) == ["answer"]
    assert places(step, SILENT, SILENT) == []
    ours = frame(body=b'{"a":1,"addr":"127.0.0.1:1","dataVersion":{"counter":1},"none":null}')
    java = frame(body=b'{"addr":"127.0.0.1:3","a":1,"dataVersion":{"counter":9}}')
    assert places(Step(1, "broker", 202), ours, java) == []
    java.body = b'{"addr":"127.0.0.1:3","a":true,"dataVersion":{"counter":9},"b":{"c":1}}'
    assert places(Step(1, "broker", 202), ours, java) == ["body.a", "body.b"]
    assert places(Step(1, "broker", 202), frame(body=b"[1]"), frame(body=b"[1,2]")) == ["body"]


def test_names_of_other_runs_are_not_compared() -> None:
    ours = frame(body=b'{"t":{"dfax1zT0":1,"dfax11zT0":2,"TBW102":3}}')
    java = frame(body=b'{"t":{"dfax1zT0":1,"%RETRY%dfax2zG0":2,"TBW102":3}}')
    assert places(Step(1, "broker", 21), ours, java) == []
    java.body = b'{"t":{"dfax1zT0":1}}'
    assert places(Step(1, "broker", 21), ours, java) == ["body.t.TBW102"]
    ours = frame(body=b'{"queueDatas":[{"brokerName":"broker-a"}]}')
    java = frame(body=b'{"queueDatas":[{"brokerName":"broker-a"},{"brokerName":"dfax2zB0"}]}')
    assert places(Step(1, "namesrv", 105), ours, java) == []
    java.body = b'{"queueDatas":[{"brokerName":"broker-a"},{"brokerName":"dfax1zB0"}]}'
    assert places(Step(1, "namesrv", 105), ours, java) == ["body.queueDatas"]
    assert generalised("body.t[12].%RETRY%dfax1zG0.x") == "body.t[].%RETRY%G0.x"


def test_every_listed_difference_is_on_the_page_and_has_a_reason() -> None:
    page = " ".join((ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8").split())
    entries = load()
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert len(entry.reason) > 10, entry.name
        assert " ".join(entry.docs.split()) in page, f"{entry.name}: docs/compatibility.md does not say {entry.docs!r}"


def test_every_sequence_of_the_corpus_can_be_read() -> None:
    for file in (ROOT / "proof" / "differential" / "corpus").glob("*.json"):
        assert from_json(file.read_text(encoding="utf-8"))
