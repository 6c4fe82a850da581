"""Decides when a broker rejects sends because of overload: SYSTEM_BUSY (2) immediately, without storing.

RocketMQ measures the queue of its send threads (BrokerFastFailure, NettyRemotingAbstract, docs/protocol/remoting.md 5).
Here that is the time a send waited for a turn of the loop. Sends that wait for a sync are not in RocketMQ's queue: a
disk that needs half a second per sync rejects none. Here their pending responses are limited by number, bytes and age.
Clients parse the remarks, so they are identical to Java's: `[REJECTREQUEST]`, `[OVERLOAD]`, `[TIMEOUT_CLEAN_QUEUE]`.
"""

from __future__ import annotations

from typing import final

from bolide.broker.options.composed import BrokerOptions


@final
class Overload:
    """The limits. The executor provides the measured values."""

    def __init__(self, options: BrokerOptions) -> None:
        self.fast_failure: bool = True
        self.max_wait: int = 0
        self.max_halt: int = 0
        self.max_age: int = 0
        self.max_parked: int = 0
        self.max_bytes: int = 0
        self.configure(options)

    def configure(self, options: BrokerOptions) -> None:
        """Apply the limits of these options, at startup and after a change."""
        self.fast_failure = options.send.broker_fast_failure_enable
        self.max_wait = options.send.wait_time_mills_in_send_queue
        self.max_halt = options.send.os_page_cache_busy_time_out_mills
        self.max_age = options.send.max_parked_send_millis
        self.max_parked = options.send.send_thread_pool_queue_capacity
        self.max_bytes = options.send.max_parked_send_bytes

    def remark(self, count: int, size: int, age: int, lag: int) -> str:
        """Return why to reject a send now, or "".

        `count`: number of sends that wait for the log; `size`: their bytes; `age`: waiting time of the oldest in ms;
        `lag`: time in ms that the current read waited for its turn of the loop.
        """
        if age >= self.max_age:
            return f"[REJECTREQUEST]system busy, start flow control for a while: the disk stands still for {age}ms"
        if lag >= self.max_halt:
            return f"[REJECTREQUEST]system busy, start flow control for a while: the broker stood still for {lag}ms"
        if count >= self.max_parked or size >= self.max_bytes:
            return f"[OVERLOAD]system busy, start flow control for a while: {count} sends of {size} bytes wait"
        if lag >= self.max_wait and self.fast_failure:
            return (
                f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"period in queue: {lag}ms, size of queue: {count}"
            )
        return ""
