"""The message trace as rows: lines of 4.x and 5.x, of Java's clients and ours, whole and in part."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.client.tracing.trace import (
    CONSUME_BEGINS,
    CONSUME_ENDS,
    SENT,
    TIME_OUT,
    TraceBean,
    TraceContext,
    encode_trace,
)
from bolide.spark.jobs.trace import trace_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_trace_has_one_row_per_message(spark: Any) -> None:
    sent = TraceBean("M1", "Orders", "A", "k1 k2", "10.0.0.1:10911", "OFF1", 12)
    other = TraceBean("M2", "Orders", store_host="10.0.0.1:10911", body_length=3)
    steps = [
        TraceContext(SENT, 1_000, "P", (sent, other), cost_ms=5),
        TraceContext(CONSUME_BEGINS, 2_000, "C", (TraceBean("M1", keys="k1"),), request_id="R1"),
        TraceContext(
            CONSUME_ENDS,
            2_500,
            "C",
            (TraceBean("M1"),),
            cost_ms=500,
            success=False,
            request_id="R1",
            context_code=TIME_OUT,
        ),
        TraceContext(CONSUME_BEGINS, 3_000, "C", (TraceBean("M1", retry_times=1),), request_id="R2"),
        TraceContext(CONSUME_ENDS, 3_001, "C", (TraceBean("M1"),), cost_ms=1, request_id="R2"),
        TraceContext(CONSUME_BEGINS, 9_000, "D", (TraceBean("M3"),), request_id="R3"),
    ]
    old = "\x01".join(["Pub", "500", "R", "P4", "Old", "M4", "", "", "h:1", "7", "2", "0", "true"]) + "\x02"
    old += "\x01".join(["SubAfter", "R4", "M4", "8", "true", "null"]) + "\x02" + "Nonsense\x011\x02"
    bodies = [(encode_trace(step).encode(),) for step in steps] + [(old.encode(),)]
    # The trace is sent at least once: the same lines twice are one story.
    messages = spark.createDataFrame(bodies + bodies[1:3], "body BINARY")
    rows = {row.message_id: row for row in trace_rows(messages).collect()}
    assert sorted(rows) == ["M1", "M2", "M3", "M4"]
    first = rows["M1"]
    assert (first.topic, first.tags, first["keys"], first.producer_group) == ("Orders", "A", ["k1", "k2"], "P")
    assert (first.sent_at.timestamp(), first.send_ms, first.send_ok, first.type) == (1.0, 5, True, "normal")
    assert (first.store_host, first.offset_message_id, first.body_length) == ("10.0.0.1:10911", "OFF1", 12)
    assert [(one.request_id, one.retry_times, one.ok, one.code, one.cost_ms) for one in first.consumptions] == [
        ("R1", 0, False, "time_out", 500),
        ("R2", 1, True, "success", 1),
    ]
    assert first.consumed == 1
    assert (rows["M2"].tags, rows["M2"]["keys"], rows["M2"].consumptions, rows["M2"].consumed) == (None, [], [], 0)
    [open_] = rows["M3"].consumptions
    assert (rows["M3"].topic, open_.consumer_group, open_.ended_at, open_.ok) == (None, "D", None, None)
    assert (rows["M4"].send_ok, rows["M4"].offset_message_id, rows["M4"].topic) == (True, None, "Old")
    [ended] = rows["M4"].consumptions
    assert (ended.cost_ms, ended.ok, ended.began_at, ended.ended_at) == (8, True, None, None)
