"""Settings of delayed messages and timers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from bolide.declaration import OURS, Count, DeclaredOptions, PositiveCount, PositiveMs, PositiveSeconds
from bolide.layout.shape import DELAYS


class DelayOptions(DeclaredOptions, frozen=True, kw_only=True):
    """Timers, recalls and delay levels."""

    timer_wheel_enable: Annotated[bool, DELAYS("Accept messages with a delay or a delivery time.")] = True
    timer_precision_ms: Annotated[
        PositiveMs, DELAYS("Width of a timer slot: the greatest of 100, 200, 500 and 1000 that is not above it.")
    ] = 1000
    timer_max_delay_sec: Annotated[PositiveSeconds, DELAYS("Longest delay accepted.")] = 3 * 24 * 3600
    timer_roll_window_slot: Annotated[
        Count,
        DELAYS(
            "Maximum number of slots that a message waits before it is stored as a new message with the remaining time."
        ),
    ] = 2 * 24 * 3600
    timer_congest_num_each_slot: Annotated[
        PositiveCount,
        DELAYS("Number of messages of one slot from which some are rejected, and from twice as many all."),
    ] = (1 << 31) - 1
    timer_flush_interval_ms: Annotated[PositiveMs, DELAYS("Time between flushes of the timer's files.")] = 1000
    timer_stop_enqueue: Annotated[bool, DELAYS("Leave new timer messages in their topic.")] = False
    timer_stop_dequeue: Annotated[bool, DELAYS("Deliver no timer messages.", java=OURS)] = False
    append_topic_for_timer_delete_key: Annotated[
        bool, DELAYS("Recalls name topic and key, as 5.3.1 to 5.3.3 do; false: the key alone.")
    ] = False
    mapped_file_size_timer_log: Annotated[
        int, Meta(ge=120, le=1 << 31, extra={"unit": "bytes"}), DELAYS("Size of a file of the timer's log.")
    ] = 100 * 1024 * 1024
    recall_message_enable: Annotated[bool, DELAYS("Accept recalls of timer messages.")] = False
    allow_recall_when_broker_not_writeable: Annotated[
        bool, DELAYS("Accept recalls also while brokerPermission forbids writing.")
    ] = True
    flush_delay_offset_interval: Annotated[
        PositiveMs, DELAYS("Time between writes of the progress of delay levels.")
    ] = 10_000
