"""`bolide store`: tables and JSON of a golden store, and what the exit code says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.store import app
from tests.golden.stores import golden_store


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    settings = golden_store("5.5.0-clean").manifest["brokerConf"]
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"COLUMNS": "160"})
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_inspect_as_json(conf: Path) -> None:
    golden = golden_store("5.5.0-clean")
    code, text = run("inspect", golden.root, "-c", conf, "--json")
    assert code == 0
    told = json.loads(text)
    assert told["log"]["records"] == len(golden.log())
    assert {queue["topic"] for queue in told["queues"]} == {record["topic"] for record in golden.log()}


def test_inspect_for_people(conf: Path) -> None:
    code, text = run("inspect", golden_store("5.5.0-clean").root, "-c", conf)
    assert code == 0
    assert "cleanly" in text
    assert "golden_plain" in text


def test_verify_says_clean(conf: Path) -> None:
    code, text = run("verify", golden_store("5.5.0-clean").root, "-c", conf)
    assert code == 0
    assert "clean: 515 records" in text
    code, text = run("verify", golden_store("5.5.0-clean").root, "-c", conf, "--json")
    assert code == 0
    assert json.loads(text)["clean"] is True


def test_verify_counts_findings(conf: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_store("5.5.0-clean").root, root)
    with (root / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(88)
        file.write(b"\xff")
    code, text = run("verify", root, "-c", conf)
    assert code == 1
    assert "1 findings: 515 records" in text
    code, text = run("verify", root, "-c", conf, "--json")
    assert code == 1
    assert [finding["position"] for finding in json.loads(text)["findings"]] == [0]


def test_wrong_usage(tmp_path: Path) -> None:
    code, text = run("verify", tmp_path)
    assert code == 2
    assert "no CommitLog file" in text
    code, text = run("inspect", golden_store("5.5.0-clean").root)
    assert code == 2
    assert "--config" in text
    assert run("verify")[0] == 2


def test_repair_plans_then_does(conf: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_store("5.5.0-clean").root, root)
    assert run("repair", root, "-c", conf)[0] == 0
    with (root / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(88)
        damaged = bytes([file.read(1)[0] ^ 1])
        file.seek(88)
        file.write(damaged)
    code, text = run("repair", root, "-c", conf)
    assert code == 1
    assert "does not match its CRC at physical offset 0" in text
    assert "514 good records follow" in text
    assert "nothing was changed" in text
    assert not list(root.glob("repair-*"))
    code, text = run("repair", root, "-c", conf, "--yes")
    assert code == 0
    (kept,) = root.glob("repair-*")
    (copy,) = kept.iterdir()
    assert copy.read_bytes()[88:89] == damaged
    assert run("repair", root, "-c", conf, "--json")[0] == 0
    with (root / "commitlog" / "00000000000000000000").open("rb") as file:
        assert b"This message was damaged" in file.read(400)
