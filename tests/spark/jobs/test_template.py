"""The template of a declarative pipeline: each of two runs processes what is new in the topic."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.jobs.template import write_template
from bolide.testing.broker import Broker
from tests.spark.produce import send
from tests.spark.spark_home import spark_home

TABLES = ("bronze", "silver", "silver_rejected", "gold_by_hour")


def run(command: Sequence[str | Path], project: Path, **environment: str) -> None:
    """Run a program on a project until the pipeline ends."""
    done = subprocess.run(
        command, cwd=project, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check_two_runs(broker: Broker, project: Path, tables: Path, pipeline: Callable[[], None]) -> None:
    """Run the pipeline twice and check all its tables."""
    write_template(str(project), broker.namesrv_addr, "Orders", "id BIGINT, amount DOUBLE")
    orders = [Message("Orders", b'{"id":%d,"amount":1.5}' % n, tags="AB"[n % 2]) for n in range(10)]
    send(broker.namesrv_addr, [*orders, Message("Orders", b"no json", tags="A")])
    pipeline()
    send(broker.namesrv_addr, [Message("Orders", b'{"id":10,"amount":2}', tags="A")])
    pipeline()
    rows = {name: parquet.read_table(tables / name).to_pylist() for name in TABLES}
    assert sorted((row["id"], row["amount"]) for row in rows["silver"]) == [*((n, 1.5) for n in range(10)), (10, 2.0)]
    assert len(rows["bronze"]) == 12
    assert [row["body"] for row in rows["silver_rejected"]] == [b"no json"]
    gold: Counter[str] = Counter()
    for row in rows["gold_by_hour"]:
        gold[row["tags"]] += row["messages"]
    assert gold == {"A": 6, "B": 5}


@pytest.fixture
def tables(spark: Any) -> Iterator[Path]:
    """Provide the folder of the session's tables; drop those of the pipeline at the end."""
    yield Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    for name in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.spark
@pytest.mark.pipelines
@pytest.mark.xdist_group("spark")
def test_bronze_silver_and_gold_follow_the_topic(
    connect: str, tables: Path, bolide_broker: Broker, tmp_path: Path
) -> None:
    project = tmp_path / "orders"
    command = [sys.executable, "-m", "pyspark.pipelines.cli", "run"]
    check_two_runs(bolide_broker, project, tables, partial(run, command, project, SPARK_REMOTE=connect))


@pytest.mark.spark
@pytest.mark.pipelines
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("spark-processes")
def test_the_catalog_of_the_documented_command_outlives_a_run(bolide_broker: Broker, tmp_path: Path) -> None:
    project, home = tmp_path / "orders", spark_home(tmp_path / "home")
    command = [home / "bin" / "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive"]
    command += ["--conf", "spark.ui.enabled=false"]
    # SPARK_TESTING has the local server take any free port instead of 15002.
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home), "SPARK_TESTING": "1"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    pipeline = partial(run, command, project, **environment)
    check_two_runs(bolide_broker, project, project / "spark-warehouse", pipeline)


@pytest.mark.pipelines
def test_a_template_is_not_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep", "utf-8")
    with pytest.raises(OptionError, match="is not empty"):
        write_template(str(tmp_path), "h:1", "T", "id INT")
    with pytest.raises(OptionError, match="characters that YAML does not"):
        write_template(str(tmp_path / "new"), "h:1", 'T"', "id INT")
    assert not (tmp_path / "new").exists()


@pytest.mark.versions
def test_a_template_is_not_written_for_a_spark_without_pipelines(tmp_path: Path) -> None:
    if find_spec("pyspark.pipelines") is None:
        with pytest.raises(OptionError, match="has no declarative pipelines: install PySpark 4.1 or newer"):
            write_template(str(tmp_path / "new"), "h:1", "T", "id INT")
    assert not (tmp_path / "new").exists()
