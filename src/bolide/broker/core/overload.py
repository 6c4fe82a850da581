"""When a broker takes no more sends for a while: answered with SYSTEM_BUSY (2) at once, and stored nowhere.

RocketMQ measures the queue before its send threads (BrokerFastFailure, NettyRemotingAbstract, docs/protocol/remoting.md
5): here that is the time a send waited for its turn of the loop. What waits for a sync is in no queue there: a disk
that needs half a second for one refuses nothing. Here such answers pile up, bounded by their number, bytes and age. The
remarks are Java's to the letter where clients look at them: `[REJECTREQUEST]`, `[OVERLOAD]`, `[TIMEOUT_CLEAN_QUEUE]`.
"""

from __future__ import annotations

from typing import final

from bolide.broker.core.options import BrokerOptions


@final
class Overload:
    """The limits; what is compared with them is the executor's."""

    def __init__(self, options: BrokerOptions) -> None:
        self.fast_failure: bool = True
        self.max_wait: int = 0
        self.max_halt: int = 0
        self.max_age: int = 0
        self.max_parked: int = 0
        self.max_bytes: int = 0
        self.configure(options)

    def configure(self, options: BrokerOptions) -> None:
        """Take over the limits of these options; at start, and when they change at run time."""
        self.fast_failure = options.send.broker_fast_failure_enable
        self.max_wait = options.send.wait_time_mills_in_send_queue
        self.max_halt = options.send.os_page_cache_busy_time_out_mills
        self.max_age = options.send.max_parked_send_millis
        self.max_parked = options.send.send_thread_pool_queue_capacity
        self.max_bytes = options.send.max_parked_send_bytes

    def remark(self, count: int, size: int, age: int, lag: int) -> str:
        """Why a send that comes now is refused; "" when it is not.

        `count` sends wait for the log with `size` bytes of it, the oldest for `age` ms; what came in with this one
        waited `lag` ms for its turn of the loop.
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
