"""`bolide doctor`: what it says of this machine is what the machine and the broker say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bolide.cli.daemons import doctor
from bolide.store.disk.files import RealFiles
from proof.kit.waiting import wait_until


def told(*words: str) -> dict[str, tuple[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "bolide", "doctor", "--json", *words], capture_output=True, text=True, check=False
    )
    rows = json.loads(done.stdout)
    assert done.returncode == int(any(row["state"] == doctor.BAD for row in rows)), done.stderr
    return {row["what"]: (row["state"], row["detail"]) for row in rows}


def test_the_modules_of_the_extra_spark_are_checked() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {re.split("[<>=]", each)[0] for each in project["optional-dependencies"]["spark"]}
    assert {module.rpartition(".")[2] for module in doctor.EXTRA_SPARK} == required


def test_the_disk_is_as_full_as_df_says(tmp_path: Path) -> None:
    def agrees() -> bool:
        """Other work writes between the two looks."""
        _, detail = told("--store", str(tmp_path / "not" / "yet"))["Disk"]
        found = re.fullmatch(rf"(\d+) % used, ([\d.]+) GB free at {re.escape(str(tmp_path))}.*", detail)
        assert found is not None, detail
        df = subprocess.run(["df", "-P", str(tmp_path)], capture_output=True, text=True, check=True)
        return df.stdout.splitlines()[1].split()[4] == f"{found[1]}%"

    wait_until(agrees, "doctor and df to agree")


@pytest.mark.parametrize(
    ("used", "state", "words"),
    [
        (0.749, doctor.OK, "75 % used"),
        (0.76, doctor.WARN, "76 % used, .* expired files are deleted above 75%, sends are refused above 90%"),
        (0.901, doctor.BAD, "91 % used"),
    ],
)
def test_doctor_reports_disk_usage(used: float, state: str, words: str, tmp_path: Path) -> None:
    found = doctor.room(tmp_path, used)
    assert found.state == state and re.match(words, found.detail), found.detail


def test_without_a_folder_it_is_the_disk_of_the_shipped_store() -> None:
    home = Path.home()
    (finding,) = [each for each in doctor.disk(None) if each.what == "Disk"]
    assert str(home) in finding.detail
    assert RealFiles().disk_use(str(home)) > 0
