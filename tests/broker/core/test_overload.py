"""The limits on sends: each remark begins where its limit is reached, and not one step before."""

from __future__ import annotations

import pytest

from bolide.broker.core.overload import Overload
from bolide.broker.options.composed import BrokerOptions

OPTIONS = BrokerOptions.of(
    wait_time_mills_in_send_queue=200,
    os_page_cache_busy_time_out_mills=1000,
    send_thread_pool_queue_capacity=10,
    max_parked_send_bytes=500,
    max_parked_send_millis=3000,
)


@pytest.mark.parametrize(
    ("count", "size", "age", "lag", "begins"),
    [
        (9, 499, 2999, 199, ""),
        (10, 0, 0, 0, "[OVERLOAD]"),
        (1, 500, 0, 0, "[OVERLOAD]"),
        (0, 0, 0, 200, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 200ms"),
        (9, 0, 2999, 999, "[TIMEOUT_CLEAN_QUEUE]"),
        (10, 0, 2999, 999, "[OVERLOAD]"),
        (0, 0, 0, 1000, "[REJECTREQUEST]"),
        (1, 0, 3000, 0, "[REJECTREQUEST]"),
    ],
)
def test_a_limit_refuses_from_its_value_on(count: int, size: int, age: int, lag: int, begins: str) -> None:
    remark = Overload(OPTIONS).remark(count, size, age, lag)
    assert remark.startswith(begins) and bool(remark) == bool(begins)


def test_fast_failure_can_be_switched_off() -> None:
    overload = Overload(BrokerOptions.of(broker_fast_failure_enable=False))
    assert overload.remark(1, 0, 2999, 999) == ""
    assert overload.remark(1, 0, 3000, 0).startswith("[REJECTREQUEST]")
