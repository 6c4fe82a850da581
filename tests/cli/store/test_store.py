"""`bolide store`: tables and JSON of a golden store, and what the exit code says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.store.store import app
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import RealFiles
from bolide.store.message_store import MessageStore
from tests.golden.stores import golden_store
from tests.store.scenario import START, message


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
    assert "514 valid records follow" in text
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


def test_repair_continues_without_a_log(conf: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_store("5.5.0-clean").root, root)
    (root / "commitlog").rename(tmp_path / "aside")  # an interrupted repair has moved it
    assert run("repair", tmp_path, "-c", conf)[0] == run("verify", root, "-c", conf)[0] == 2
    code, text = run("repair", root, "-c", conf)
    assert (code, "but other files show that it reached" in text) == (1, True)
    assert run("repair", root, "-c", conf, "--yes")[0] == 0
    assert not any((root / name).exists() for name in ("consumequeue", "index", "checkpoint"))
    code, text = run("repair", root, "-c", conf)
    assert (code, "no CommitLog file" in text) == (2, True)


def test_the_example_of_the_page_on_stores(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shape = StoreShape(commit_log_segment_size=1 << 20, index_enabled=False)
    store = MessageStore(RealFiles(), str(root), shape)
    store.load(START)
    places = [store.append(message(number), START).physical_offset for number in range(9)]
    store.close(START)
    with (root / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(places[4] + 90)
        file.write(b"\xff")
    page = (Path(__file__).parents[3] / "docs" / "store.md").read_text()
    lines = [line.split("#")[0].split() for line in page.splitlines() if line.startswith("    bolide store repair")]
    codes = []
    for words in lines:
        assert words[:2] == ["bolide", "store"]
        codes.append(run(*[str(root) if word == "./data" else word for word in words[2:]])[0])
    assert codes == [1, 0]
    again = MessageStore(RealFiles(), str(root), shape)
    again.load(START)
    assert [again.record_at(place) is not None for place in places] == [True] * 9
    again.close(START)


def test_store_of_a_newer_format_is_refused_by_every_verb(conf: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden_store("5.5.0-clean").root, root)
    code, text = run("inspect", root, "-c", conf, "--json")
    assert (code, json.loads(text)["format"]) == (0, 0)
    (root / "store-format").write_bytes(b'{"format": 99, "since": "9.0.0"}')
    for words in (("inspect",), ("verify",), ("repair", "--yes"), ("truncate", "--at", "0", "--yes")):
        code, text = run(words[0], root, *words[1:], "-c", conf)
        assert code == 1, text
        assert text.startswith(f"bolide: {root} has store format 99 (Bolide 9.0.0 and newer)"), text


def test_truncate_names_the_replica_whose_identity_broker_conf_has_elsewhere(conf: Path, tmp_path: Path) -> None:
    root, identity = tmp_path / "store", tmp_path / "identity"
    shutil.copytree(golden_store("5.5.0-clean").root, root)
    identity.write_text("C#broker-a#2")
    with conf.open("a") as file:
        file.write(f"storePathBrokerIdentity={identity}\n")
    code, text = run("truncate", root, "-c", conf, "--at", 0)
    assert (code, "nothing was changed" in text) == (1, True)
    assert f"{root} (replica 2 of broker-a in C): truncate the log at offset 0: " in text
    assert (root / "commitlog").is_dir()
    assert run("truncate", root, "-c", conf, "--at", 0, "--yes", "--json")[0] == 0
    (kept,) = root.glob("repair-*")
    assert (kept / "commitlog").is_dir()
