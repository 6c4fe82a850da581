"""The tests that judge loss, order, duplicates, crashes or exactly-once. One failure of them fails a run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

JUDGING = (
    *("tests/crash/", "tests/hostile/", "tests/model/", "tests/proof/", "tests/node/replication/"),
    *("tests/golden/test_store_recovery", "tests/store/startup/test_recovery", "tests/store/startup/test_known_end"),
    *("tests/broker/delay/", "tests/broker/transactions/", "tests/controller/", "tests/replication/"),
    *("tests/client/consuming/test_orderly", "tests/client/consuming/test_send_back"),
    *("tests/admin/test_rolling", "tests/cli/cluster/test_planned", "tests/node/test_broker_as_slave"),
    *("tests/interop/test_acting", "tests/interop/test_async_pairs", "tests/interop/test_broker_pair"),
    *("tests/interop/test_controlled_brokers", "tests/interop/test_controller", "tests/interop/test_many_queues"),
    *("tests/interop/test_promotion", "tests/interop/test_replication", "tests/interop/test_switch_truncation"),
    *("tests/interop/test_java_opens_our_store", "tests/interop/test_store_features"),
    "tests/interop/test_transactions",
    *("tests/spark/sink/", "tests/spark/source/test_stream", "tests/spark/source/test_cluster"),
    *("tests/spark/jobs/test_running", "tests/spark/jobs/test_mirror", "tests/spark/dispatch/test_follow"),
    *("tests/spark/store/test_durable", "tests/spark/store/test_store_stream"),
)
"""How the ids of these tests start. A test elsewhere has `pytest.mark.judges`."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Give the tests of these files the marker `judges`."""
    for item in items:
        if item.nodeid.startswith(JUDGING):
            item.add_marker(pytest.mark.judges)
