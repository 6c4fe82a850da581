"""The recipes for clusters: the program runs with `spark-submit`, and the files for other places fit it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.spark_matrix import VERSIONS

from bolide.client import Message
from bolide.testing.broker import Broker
from bolide.version import VERSION
from proof.kit.waiting import PROCESS_PATIENCE
from tests.spark.produce import send
from tests.spark.spark_home import spark_home

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
PROGRAM = ROOT / "docs" / "programs" / "spark_archive.py"
IN_IMAGE = "/opt/bolide"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("spark-processes")
def test_spark_submit_archives_what_is_new(bolide_broker: Broker, tmp_path: Path) -> None:
    home = spark_home(tmp_path / "home")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    send(bolide_broker.namesrv_addr, [Message("Orders", b"%d" % number) for number in range(30)])
    done = subprocess.run(
        [*command, str(PROGRAM), bolide_broker.namesrv_addr, str(tmp_path / "orders")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "archived 30 messages"


def test_the_operator_runs_the_program_of_the_image() -> None:
    image = (DEPLOY / "spark" / "Containerfile").read_text("utf-8")
    application, claim = yaml.safe_load_all((DEPLOY / "spark" / "archive.yaml").read_text("utf-8"))
    spec: dict[str, Any] = application["spec"]["template"]
    assert f"COPY {PROGRAM.relative_to(ROOT)} {IN_IMAGE}/" in image
    assert spec["mainApplicationFile"] == f"local://{IN_IMAGE}/{PROGRAM.name}"
    assert spec["image"] == f"bolide-spark:{VERSION}"
    assert re.findall(r"SPARK=(\S+)$", image, re.MULTILINE) == [spec["sparkVersion"]]
    assert spec["sparkVersion"] in VERSIONS
    assert set(spec["sparkConf"].values()) == {f"{IN_IMAGE}/bin/python3"}
    [volume] = spec["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    for side in ("driver", "executor"):
        [mount] = spec[side]["volumeMounts"]
        assert mount["name"] == volume["name"]
        assert spec["arguments"][1].startswith(mount["mountPath"] + "/")


def test_the_bundle_runs_the_program_with_the_wheel() -> None:
    folder = DEPLOY / "databricks"
    bundle: dict[str, Any] = yaml.safe_load((folder / "databricks.yml").read_text("utf-8"))
    job = bundle["resources"]["jobs"]["archive"]
    [task] = job["tasks"]
    [cluster] = job["job_clusters"]
    assert (folder / task["spark_python_task"]["python_file"]).resolve() == PROGRAM
    assert PROGRAM.parent in [(folder / path).resolve() for path in bundle["sync"]["paths"]]
    assert (folder / task["libraries"][0]["whl"]).parent.resolve() == ROOT / "dist"
    assert cluster["job_cluster_key"] == task["job_cluster_key"]
    used = re.findall(r"\$\{var\.(\w+)\}", str(job))
    assert set(used) == set(bundle["variables"])
