"""The template of a declarative pipeline runs as it is written, twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.jobs.template import write_template
from bolide.testing.broker import Broker
from tests.spark.produce import send
from tests.spark.spark_home import spark_home

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark-processes"),
]


def run(project: Path, home: Path) -> None:
    # SPARK_TESTING has the local server take any free port instead of 15002.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home), "SPARK_TESTING": "1"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [home / "bin" / "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive"]
    command += ["--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_bronze_silver_and_gold_follow_the_topic(bolide_broker: Broker, tmp_path: Path) -> None:
    project, home = tmp_path / "orders", spark_home(tmp_path / "home")
    write_template(str(project), bolide_broker.namesrv_addr, "Orders", "id BIGINT, amount DOUBLE")
    orders = [Message("Orders", b'{"id":%d,"amount":1.5}' % n, tags="AB"[n % 2]) for n in range(10)]
    send(bolide_broker.namesrv_addr, [*orders, Message("Orders", b"no json", tags="A")])
    run(project, home)
    send(bolide_broker.namesrv_addr, [Message("Orders", b'{"id":10,"amount":2}', tags="A")])
    run(project, home)
    tables = {path.name: parquet.read_table(path).to_pylist() for path in (project / "spark-warehouse").iterdir()}
    assert sorted((row["id"], row["amount"]) for row in tables["silver"]) == [*((n, 1.5) for n in range(10)), (10, 2.0)]
    assert len(tables["bronze"]) == 12
    assert [row["body"] for row in tables["silver_rejected"]] == [b"no json"]
    gold: Counter[str] = Counter()
    for row in tables["gold_by_hour"]:
        gold[row["tags"]] += row["messages"]
    assert gold == {"A": 6, "B": 5}


def test_a_template_is_not_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep", "utf-8")
    with pytest.raises(OptionError, match="is not empty"):
        write_template(str(tmp_path), "h:1", "T", "id INT")
    with pytest.raises(OptionError, match="characters that YAML does not"):
        write_template(str(tmp_path / "new"), "h:1", 'T"', "id INT")
    assert not (tmp_path / "new").exists()
