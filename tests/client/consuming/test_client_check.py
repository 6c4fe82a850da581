"""What a broker says of a consumer's expressions before it starts."""

from __future__ import annotations

import pytest

from bolide.client import ResponseError, sql
from bolide.remoting import codes
from bolide.testing.broker import Broker
from tests.client.patient import PullConsumer, PushConsumer
from tests.client.scripted_broker import ScriptedBroker


@pytest.mark.parametrize("filtering", [False, True])
async def test_an_expression_that_is_refused_ends_the_start(filtering: bool) -> None:
    with Broker(enable_property_filter=filtering) as broker:
        broker.create_topic("T", 1)
        push = PushConsumer("G", broker.namesrv_addr)
        push.subscribe("T", sql("a >"), lambda message: None)
        pull = PullConsumer("H", broker.namesrv_addr)
        pull.subscribe("T", sql("a > 5"))
        with pytest.raises(ResponseError, match="CHECK_CLIENT_CONFIG"):
            await push.start()
        push.subscribe("T", "*", lambda message: None)
        push.subscribe("Unborn", sql("a >"), lambda message: None)  # nobody to ask
        async with push:
            pass
        if not filtering:
            with pytest.raises(ResponseError, match="does not support"):
                await pull.start()
            return
        async with pull:
            pass


async def test_a_broker_that_knows_no_such_request_is_taken_to_agree(broker: ScriptedBroker) -> None:
    push = PushConsumer("G", broker.address, suspend=0.5)
    push.subscribe("T", sql("a > 5"), lambda message: None)
    async with push:
        assert len(broker.requests(codes.CHECK_CLIENT_CONFIG)) == 1
