"""Topics and stores in SQL, as the page about it says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.source.sql_table import is_table
from bolide.testing.broker import Broker
from tests.golden.stores import golden_store
from tests.page_programs import program
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def name(spark: Any) -> Iterator[str]:
    """A name that is free, for a table or a view."""
    name = f"t{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"DROP VIEW IF EXISTS {name}_view")


def test_the_program_of_the_page(
    spark: Any, bolide_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bolide_broker.create_topic("Orders")
    bolide_broker.create_topic("Paid")
    try:
        program("spark_sql").main(bolide_broker.namesrv_addr, str(tmp_path))
    finally:
        for table in ("messages", "outbox"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.catalog.dropTempView("orders")
    shown = [line.strip("|").split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in shown]
    assert cells == [["tags", "body"], ["coffee", "one coffee"], ["tea", "two teas"], ["tags"], ["coffee"], ["tea"]]


def test_a_view_over_a_table_is_planned_for_each_query_and_one_of_options_once(
    spark: Any, bolide_broker: Broker, name: str
) -> None:
    namesrv = bolide_broker.namesrv_addr
    bolide_broker.create_topic("Orders")
    send(namesrv, [Message("Orders", b"1")])
    spark.sql(f"CREATE TABLE {name} (body BINARY) USING rocketmq")
    of_orders = f"{name} WITH (namesrv = '{namesrv}', subscribe = 'Orders')"
    spark.sql(f"CREATE TEMPORARY VIEW {name}_view AS SELECT * FROM {of_orders}")
    options = f"OPTIONS (namesrv '{namesrv}', subscribe 'Orders')"
    spark.sql(f"CREATE TEMPORARY VIEW {name}_once USING rocketmq {options}")
    assert [spark.table(f"{name}_{kind}").count() for kind in ("view", "once")] == [1, 1]
    send(namesrv, [Message("Orders", b"2")])
    spark.sql(f"REFRESH TABLE {name}_once")
    assert [spark.table(f"{name}_{kind}").count() for kind in ("view", "once")] == [2, 1]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name}_once USING rocketmq {options}")
    assert spark.table(f"{name}_once").count() == 2
    spark.catalog.dropTempView(f"{name}_once")


def test_options_of_a_table_are_missed_in_a_sentence(spark: Any, name: str) -> None:
    with pytest.raises(
        Exception, match=r"Spark does not store the OPTIONS of a table, here namesrv: .* FROM t WITH \(namesrv"
    ):
        spark.sql(f"CREATE TABLE {name} USING rocketmq OPTIONS (namesrv 'here:9876', subscribe 'Orders')")
    with pytest.raises(Exception, match="Spark does not store the OPTIONS of a table, here path"):
        spark.sql(f"CREATE TABLE {name} USING `rocketmq-store` OPTIONS (path '/data/store')")
    spark.sql(f"CREATE TABLE {name} (tags STRING) USING rocketmq OPTIONS (namesrv 'here:9876', subscribe 'Orders')")
    with pytest.raises(Exception, match="no topic is given"):
        spark.sql(f"SELECT * FROM {name}").collect()


def test_a_store_is_a_table_too(spark: Any, name: str) -> None:
    golden = golden_store("5.5.0-clean")
    spark.sql(f"CREATE TABLE {name} USING `rocketmq-store` COMMENT 'a log' TBLPROPERTIES ('kept' = 'as it is')")
    log = f"{name} WITH (path = '{golden.root}', subscribe = 'golden_one')"
    (row,) = spark.sql(f"SELECT count(*) AS n, max(kind) AS kind FROM {log}").collect()
    assert (row.n, row.kind) == (sum(entry["topic"] == "golden_one" for entry in golden.log()), "normal")


def test_is_table_needs_a_provider() -> None:
    assert not is_table({"namesrv": "here:9876", "option.namesrv": "here:9876"}, "rocketmq")
    assert is_table({"provider": "rocketmq", "owner": "me", "a": "property"}, "rocketmq")
    with pytest.raises(OptionError, match="here subscribe"):
        is_table({"Provider": "rocketmq", "subscribe": "Orders", "option.subscribe": "Orders"}, "rocketmq")
