"""Settings of sends."""

from __future__ import annotations

from typing import Annotated

from bolide.declaration import (
    OURS,
    DeclaredOptions,
    PositiveBytes,
    PositiveCount,
    PositiveMs,
    Timestamp,
)
from bolide.store.options import SENDS


class SendOptions(DeclaredOptions, frozen=True, kw_only=True):
    """What the broker refuses of sends, and when it is too busy for them."""

    reject_transaction_message: Annotated[bool, SENDS("Refuse transactional messages.")] = False
    max_batch_messages: Annotated[
        PositiveCount, SENDS("Maximum number of messages in a batch; a longer batch is refused.", java=OURS)
    ] = 16_384
    store_reply_message_enable: Annotated[
        bool, SENDS("Store the replies of request-reply in the cluster's reply topic.")
    ] = True
    start_accept_send_request_time_stamp: Annotated[
        Timestamp, SENDS("Refuse sends until this time; 0: accept them at once.", live=True)
    ] = 0
    broker_fast_failure_enable: Annotated[
        bool, SENDS("Refuse sends with [TIMEOUT_CLEAN_QUEUE] at the next limit.", live=True)
    ] = True
    wait_time_mills_in_send_queue: Annotated[
        PositiveMs, SENDS("Time a send waited for its turn from which it is refused.", live=True)
    ] = 200
    os_page_cache_busy_time_out_mills: Annotated[
        PositiveMs, SENDS("Time a send waited for its turn from which it is refused in any case.", live=True)
    ] = 1000
    send_thread_pool_queue_capacity: Annotated[
        PositiveCount,
        SENDS("Sends waiting for the log from which others are refused with [OVERLOAD].", live=True, java="10000"),
    ] = 100_000
    max_parked_send_bytes: Annotated[
        PositiveBytes,
        SENDS("Bytes of the log that sends wait for, from which others are refused.", live=True, java=OURS),
    ] = 512 * 1024 * 1024
    max_parked_send_millis: Annotated[
        PositiveMs,
        SENDS("Age of the oldest send waiting for the log from which others are refused.", live=True, java=OURS),
    ] = 3000
