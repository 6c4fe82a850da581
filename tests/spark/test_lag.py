"""The lag of streaming queries, from their progress and from the brokers."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark import LagListener, SourceLag
from bolide.spark.errors import OptionError
from bolide.spark.source.queues import Queue
from bolide.testing.broker import Broker
from tests.spark.produce import send


def offsets(*ends: int, topic: str = "T") -> str:
    return json.dumps({"queues": {topic: {"b": {str(number): end for number, end in enumerate(ends)}}}, "last": {}})


def progress(*sources: tuple[str | None, str | None], name: str | None = "orders", run: str = "r1") -> Any:
    """An event as Spark passes it: end and newest offsets of each source."""
    found = [SimpleNamespace(endOffset=end, latestOffset=newest) for end, newest in sources]
    return SimpleNamespace(progress=SimpleNamespace(name=name, id="q-1", runId=run, sources=found))


def test_the_lag_of_a_progress() -> None:
    told: list[SourceLag] = []
    listener = LagListener(told.append)
    listener.onQueryStarted(SimpleNamespace())
    kafka = ('{"topic": {"0": 5}}', '{"topic": {"0": 9}}')
    listener.onQueryProgress(progress(kafka, (offsets(5, 9, 7), offsets(10, 10)), (None, None)))
    listener.onQueryIdle(SimpleNamespace())
    (lag,) = told
    assert (lag.query, lag.source, lag.total) == ("orders", 1, 6)
    assert lag.metrics() == {"maxOffsetsBehindLatest": 5, "minOffsetsBehindLatest": 1, "avgOffsetsBehindLatest": 3}
    assert str(lag) == "query orders, source 1: 6 messages not read in 2 queues, at most 5 in one"
    assert listener.lags() == [lag]
    listener.onQueryTerminated(SimpleNamespace(runId="r1"))
    assert listener.lags() == []


def test_a_query_without_name_or_newest_offsets() -> None:
    listener = LagListener()
    listener.onQueryProgress(progress((offsets(5), None), name=None))
    (lag,) = listener.lags()
    assert (lag.query, lag.total, lag.metrics()) == ("q-1", 0, {})


def test_a_reset_queue_is_not_behind() -> None:
    listener = LagListener()
    listener.onQueryProgress(progress((offsets(5), offsets(3))))
    assert listener.lags()[0].behind == {Queue("T", "b", 0): 0}


def test_a_wrong_option_is_refused_at_once() -> None:
    with pytest.raises(OptionError, match="did you mean requestTimeoutMs"):
        LagListener(namesrv="h:1", requestTimeoutsMs="5")


def position(*ends: int) -> str:
    ids = {str(number): end for number, end in enumerate(ends)}
    return json.dumps({"queues": {"Orders": {"broker-a": ids}}, "last": {}})


def test_brokers_are_asked_for_a_query_that_hangs() -> None:
    now = [0.0]
    with Broker() as broker:
        broker.create_topic("Orders", queues=2)
        listener = LagListener(clock=lambda: now[0], namesrv=broker.namesrv_addr)
        assert listener.lags() == []
        # The newest offsets of the progress name the queues that the query selects.
        listener.onQueryProgress(progress((position(0, 0), position(0)), run="r1"))
        listener.onQueryProgress(progress((position(0, 0), None), run="r2", name="older"))
        assert [lag.total for lag in listener.lags()] == [0, 0]
        sent = send(broker.namesrv_addr, [Message("Orders", b"%d" % number) for number in range(5)])
        counts = Counter(result.queue.queue_id for result in sent)
        assert [lag.total for lag in listener.lags()] == [0, 0], "the answers of the last five seconds"
        now[0] += 5
        selected, older = listener.lags()
        assert (selected.query, selected.total) == ("orders", counts[0])
        assert (older.query, older.total, older.metrics()["maxOffsetsBehindLatest"]) == (
            "older", 5, max(counts.values()),
        )  # fmt: skip
    now[0] += 5
    assert [lag.total for lag in listener.lags()] == [counts[0], 5], "the last answers, while no broker answers"


def test_the_gauges_of_each_topic() -> None:
    from prometheus_client import CollectorRegistry

    listener = LagListener()
    registry = CollectorRegistry()
    registry.register(listener)
    both = {"queues": {"A": {"b": {"0": 4, "1": 1}}, "B": {"b": {"0": 9}}}}
    reached = {"queues": {"A": {"b": {"0": 1, "1": 0}}, "B": {"b": {"0": 0}}}}
    listener.onQueryProgress(progress((json.dumps(reached), json.dumps(both))))

    def value(name: str, topic: str) -> float | None:
        labels = {"query": "orders", "source": "0", "topic": topic}
        return registry.get_sample_value(f"bolide_spark_{name}offsets_behind_latest", labels)

    assert [value(name, "A") for name in ("", "max_", "min_", "avg_")] == [4, 3, 1, 2]
    assert [value(name, "B") for name in ("", "max_", "min_", "avg_")] == [9, 9, 9, 9]
