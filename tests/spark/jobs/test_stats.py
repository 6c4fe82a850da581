"""Statistics are what a plain count of the same messages says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bolide.client import Message
from bolide.job_progress import JobProgress
from bolide.spark.errors import OptionError
from bolide.spark.jobs.stages import stages_shown
from bolide.spark.jobs.stats import Count, Statistics, TopicStats, stats
from bolide.spark.jobs.stats_report import size, stats_page
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SENT = [
    Message("TU"[n % 2], b"x" * (n + 1), tags="ABC"[n % 3] if n % 5 else None, keys=[f"k{n % 4}", "<all>"])
    for n in range(60)
]  # fmt: skip


def test_counts_by_topic_tag_key_and_time(spark: Any, bolide_broker: Broker) -> None:
    send(bolide_broker.namesrv_addr, SENT)
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T,U"}
    messages = spark.read.format("rocketmq").options(**options).load()
    told: list[JobProgress] = []
    with stages_shown(spark, "counting", told.append):
        counted = stats(messages)
    assert told and told[-1].done == told[-1].total > 0
    assert (counted.messages, counted.bytes) == (60, sum(len(message.body) for message in SENT))
    for one in counted.topics:
        sizes = [len(message.body) for message in SENT if message.topic == one.topic]
        assert (one.messages, one.bytes, one.largest) == (len(sizes), sum(sizes), max(sizes))
        assert one.mean_size == pytest.approx(sum(sizes) / len(sizes))
        assert sorted(sizes)[-2] <= one.p99_size <= max(sizes)
        assert 0 <= one.latency_p50 <= one.latency_p99 <= one.latency_most
        assert one.first <= one.last
    tags = Counter((message.topic, message.tags) for message in SENT if message.tags)
    assert {(one.topic, one.name): one.messages for one in counted.tags} == tags
    keys = Counter((message.topic, key) for message in SENT for key in message.keys)
    assert {(one.topic, one.name): one.messages for one in counted.keys} == keys
    assert [one.messages for one in counted.keys] == sorted(keys.values(), reverse=True)
    assert sum(one.messages for one in counted.times) == 60
    rows = messages.collect()
    step = counted.step * 1000
    times = Counter((row.topic, int(row.store_timestamp.timestamp() * 1000) // step * step) for row in rows)
    assert {(one.topic, int(one.name)): one.messages for one in counted.times} == times
    assert stats(messages, step=3600).step == 3600
    assert len(stats(messages, hot_keys=2).keys) == 2


def test_stats_accept_no_rows_and_reject_streams(spark: Any, bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    assert stats(spark.read.format("rocketmq").options(**options).load()).messages == 0
    with pytest.raises(OptionError, match="statistics are of a batch"):
        stats(spark.readStream.format("rocketmq").options(**options).load())


def test_the_page_holds_its_plots_and_escapes_what_peers_wrote() -> None:
    hostile = "<script>alert(1)</script>"
    one = TopicStats(hostile, 3, 2_000_000, 10.0, 12, 15, 0, 120_000, 0.025, 1, 2, 3)
    page = stats_page(
        Statistics(
            [one], [Count(hostile, "&tag", 3, 9)], [Count(hostile, "<key>", 3, 9)],
            [Count(hostile, "0", 2, 4), Count(hostile, "120000", 1, 5)], 60,
        ),
        "What <is> there",
        "bolide pipeline stats 'a & b'",
    )  # fmt: skip
    assert "<code>bolide pipeline stats &#x27;a &amp; b&#x27;</code>" in page
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "&lt;key&gt;" in page
    assert "&amp;tag" in page
    assert "1.9 MiB" in page
    assert "<th>key</th>" in page
    assert '<th class="n">messages</th>' in page
    assert '<td>&lt;key&gt;</td><td class="n">3</td>' in page
    assert "http://" not in page.replace("http://www.w3.org", "")  # names of the SVG, nothing that is fetched
    assert size(10) == "10 B"
    assert size(3 * 1024**4) == "3.0 TiB"
