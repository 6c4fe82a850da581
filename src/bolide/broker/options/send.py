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
    """Limits of sends, and of overload."""

    reject_transaction_message: Annotated[bool, SENDS("Reject transactional messages.")] = False
    max_batch_messages: Annotated[
        PositiveCount, SENDS("Maximum number of messages in a batch; a longer batch is rejected.", java=OURS)
    ] = 16_384
    store_reply_message_enable: Annotated[
        bool, SENDS("Store the replies of request-reply in the cluster's reply topic.")
    ] = True
    start_accept_send_request_time_stamp: Annotated[
        Timestamp, SENDS("Reject sends until this time; 0: accept them immediately.", live=True)
    ] = 0
    broker_fast_failure_enable: Annotated[
        bool, SENDS("Reject sends with [TIMEOUT_CLEAN_QUEUE] at the next limit.", live=True)
    ] = True
    wait_time_mills_in_send_queue: Annotated[
        PositiveMs, SENDS("Waiting time from which a send is rejected while the broker is busy.", live=True)
    ] = 200
    os_page_cache_busy_time_out_mills: Annotated[
        PositiveMs, SENDS("Waiting time from which a send is always rejected.", live=True)
    ] = 1000
    send_thread_pool_queue_capacity: Annotated[
        PositiveCount,
        SENDS(
            "Number of sends waiting for the log from which further sends are rejected with [OVERLOAD].",
            live=True,
            java="10000",
        ),
    ] = 100_000
    max_parked_send_bytes: Annotated[
        PositiveBytes,
        SENDS("Bytes of the log that sends wait for, from which further sends are rejected.", live=True, java=OURS),
    ] = 512 * 1024 * 1024
    max_parked_send_millis: Annotated[
        PositiveMs,
        SENDS(
            "Age of the oldest send waiting for the log from which further sends are rejected.", live=True, java=OURS
        ),
    ] = 3000
