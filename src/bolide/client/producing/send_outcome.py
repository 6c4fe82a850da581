"""Reports the outcome of a send to interceptors."""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import Sequence
from functools import partial

from bolide.client.instance.instance import ClientInstance
from bolide.client.messages.send_result import SendResult
from bolide.client.producing.sending import Sending
from bolide.client.tracing.interceptor import Interceptor, SendCall, after_send


def end_send(calls: Sequence[SendCall], sending: Sending, interceptors: Sequence[Interceptor]) -> None:
    """Call the interceptors with the outcome of `sending`; a batch has a call for each of its messages."""
    sending.future.add_done_callback(partial(_sent, calls, sending, sending.producer.instance, interceptors))


def _sent(
    calls: Sequence[SendCall],
    sending: Sending,
    instance: ClientInstance,
    interceptors: Sequence[Interceptor],
    future: Future[SendResult],
) -> None:
    outcome = outcome_of(future)
    show_outcomes(calls, sending.message_id.split(","), [outcome] * len(calls), sending, instance, interceptors)


def outcome_of(future: Future[SendResult]) -> SendResult | BaseException:
    """Return the outcome of a send. If the caller stopped waiting, it is a cancellation: the message may be stored."""
    return CancelledError() if future.cancelled() else future.exception() or future.result()


def show_outcomes(
    calls: Sequence[SendCall],
    ids: Sequence[str],
    outcomes: Sequence[SendResult | BaseException],
    sending: Sending,
    instance: ClientInstance,
    interceptors: Sequence[Interceptor],
) -> None:
    """Call the interceptors with the outcome of each message of `sending`."""
    queue = sending.queue
    address = instance.master_address(queue.broker_name) if queue is not None else None
    for call, message_id, outcome in zip(calls, ids, outcomes, strict=True):
        call.error = outcome if isinstance(outcome, BaseException) else None
        call.result = outcome if isinstance(outcome, SendResult) else None
        call.message_id = message_id
        call.broker_address = address or ""
        call.body_length = len(call.message.body if sending.batch else sending.body)
        call.sys_flag = sending.sys_flag
        after_send(call, interceptors)
