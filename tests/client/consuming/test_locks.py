"""The locks of an orderly consumer: failures are logged when they begin and when they end."""

from __future__ import annotations

import logging

import pytest

from bolide.client import ResponseError
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, Q1, consumer
from tests.client.scripted_broker import ScriptedBroker, refusing


async def test_start_raises_if_the_locks_of_an_orderly_consumer_are_rejected(broker: ScriptedBroker) -> None:
    broker.script[codes.LOCK_BATCH_MQ] = refusing(codes.NO_PERMISSION)
    push = consumer(broker, orderly=True)
    push.subscribe("T", "*", lambda message: None)
    with pytest.raises(ResponseError, match="scripted refusal"):
        await push.start()


async def test_end_of_a_lock_failure_is_logged(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bolide.client")
    broker.script[codes.LOCK_BATCH_MQ] = refusing(codes.SYSTEM_BUSY)
    push = consumer(broker, orderly=True)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.assignment() == []
        del broker.script[codes.LOCK_BATCH_MQ]
        await until(lambda: push.assignment() == [Q0, Q1], "the locks")
    what = f"locks at {broker.address} are not refreshed"
    (begin, end) = [record for record in caplog.records if what in record.getMessage()]
    assert (begin.levelno, end.levelno) == (logging.WARNING, logging.INFO) and end.getMessage().startswith("over: ")
