"""Conditions that become options: what is pushed means exactly what it meant, and the rest is left to Spark."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark import read, read_stream
from bolide.spark.source.conditions import Term, narrowing_of
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_read_describes_itself() -> None:
    nothing: Any = None
    found = str(read_stream(nothing, namesrv="h:1", subscribe="T", startingOffsets="earliest"))
    assert found == "a stream that reads T at the name servers h:1 as group bolide-spark, starting at earliest"
    assert str(read(nothing, namesrv="h:1", subscribe="T")).startswith("a batch that reads T at")


@pytest.mark.parametrize(
    ("term", "given", "options"),
    [
        (Term("tags", "EqualTo", ("A",)), {}, {"tags": "A"}),
        (Term("tags", "In", ("A", "B")), {"tags": "B||C"}, {"tags": "B"}),
        (Term("tags", "EqualTo", ("A",)), {"tags": "B"}, None),
        (Term("tags", "EqualTo", ("A||B",)), {}, None),
        (Term("tags", "EqualTo", ("*",)), {}, None),
        (Term("tags", "GreaterThan", ("A",)), {}, None),
        (Term("topic", "EqualTo", ("T",)), {"subscribe": "S;T"}, {"subscribe": "T"}),
        (Term("topic", "EqualTo", ("T",)), {"subscribePattern": ".*"}, None),
        (Term("queue_id", "In", (1, 3)), {}, {"queueIds": "1,3"}),
        (Term("broker", "EqualTo", ("a,b",)), {}, None),
        (Term("keys", "ArrayContains", ("k",)), {}, {"keys": "k"}),
        (Term("keys", "ArrayContains", ("k",)), {"keys": "j"}, None),
        (Term("queue_offset", "GreaterThan", (5,)), {"offsetFrom": "9"}, {"offsetFrom": "9"}),
        (Term("queue_offset", "LessThanOrEqual", (5,)), {}, {"offsetTo": "6"}),
        (Term("queue_offset", "EqualTo", (5,)), {}, {"offsetFrom": "5", "offsetTo": "6"}),
        (Term("queue_offset", "LessThan", (-1,)), {}, None),
        (Term("store_timestamp", "GreaterThanOrEqual", (5_001,)), {}, {"storedFrom": "6"}),
        (Term("store_timestamp", "GreaterThan", (5_999,)), {}, {"storedFrom": "6"}),
        (Term("store_timestamp", "LessThan", (5_001,)), {"storedTo": "9"}, {"storedTo": "6"}),
        (Term("store_timestamp", "LessThanOrEqual", (5_999,)), {}, {"storedTo": "6"}),
        (Term("store_timestamp", "LessThan", (0,)), {}, None),
        (Term("store_timestamp", "LessThan", (9_000,)), {"storedTo": "2026-03-01T00:00:00Z"}, None),
        (Term("store_timestamp", "GreaterThan", (9_000,)), {"storedTo": "1970-01-01T00:00:00.005Z"}, None),
        (Term("queue_offset", "LessThan", (5,)), {"offsetFrom": "9"}, None),
        (Term("born_timestamp", "GreaterThan", (0,)), {}, None),
    ],
    ids=lambda value: str(value) if isinstance(value, Term) else "",
)
def test_a_term_becomes_an_option_or_is_left(term: Term, given: dict[str, str], options: dict[str, str] | None) -> None:
    assert narrowing_of(term, given) == options


def test_conditions_give_the_rows_that_spark_would_give(spark: Any, bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=2)
    bolide_broker.create_topic("S", queues=2)
    sent = [
        Message("ST"[n % 2], b"%d" % n, tags=["A", "B", ""][n % 3], keys=[f"k{n % 5}"], properties={"n": str(n)})
        for n in range(120)
    ]
    send(bolide_broker.namesrv_addr, sent)
    base = read(spark, namesrv=bolide_broker.namesrv_addr, subscribe="S,T")
    plain = base.load().cache()
    assert plain.count() == 120
    times = sorted(row[0] for row in plain.select("store_timestamp").collect())
    conditions = [
        "tags = 'A'",
        "tags IN ('B', 'C')",
        "topic = 'T'",
        "queue_id = 1",
        "queue_offset >= 7",
        "queue_offset BETWEEN 3 AND 9",
        "12 > queue_offset",
        "array_contains(keys, 'k2')",
        f"store_timestamp > TIMESTAMP '{times[40]}'",
        f"store_timestamp <= '{times[90]}'",
        "tags <> 'A'",
        "properties['n'] = '7' OR queue_id = 0",
        "tags = lower('A')",
        "length(body) = 2",
        "tags = NULL",
        "tags IS NULL",
    ]
    random.Random(5).shuffle(conditions)
    for first in range(0, len(conditions), 2):
        chosen = conditions[first : first + 2]
        made = base
        for condition in chosen:
            made = made.where(condition)
        wanted = plain
        for condition in chosen:
            wanted = wanted.where(condition)
        found = sorted(bytes(row.body) for row in made.load().select("body").collect())
        assert found == sorted(bytes(row.body) for row in wanted.select("body").collect()), chosen


def test_pushed_filters_are_reported(spark: Any, bolide_broker: Broker) -> None:
    from pyspark.sql.functions import col

    bolide_broker.create_topic("T")
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n, tags="AB"[n % 2]) for n in range(10)])
    base = read(spark, namesrv=bolide_broker.namesrv_addr, subscribe="T")
    made = base.where((col("tags") == "A") & (col("queue_offset") < 100) & (col("flag") == 0))
    assert made.pushed() == {"tags": "A", "offsetTo": "100"}
    assert made.left() == ("(flag = 0)",)
    assert made.load().count() == 5
    assert base.pushed() == {}
    assert base.load().count() == 10, "a condition belongs to the read that was made with it"
    assert read_stream(spark, **base.options).where("tags = 'A'").load().isStreaming


def test_the_program_of_the_page(spark: Any, bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.page_programs import run

    bolide_broker.create_topic("Orders")
    run("spark_where", bolide_broker)
    assert "{'tags': 'paid'}" in capsys.readouterr().out
