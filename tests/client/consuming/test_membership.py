"""A consumer without rebalance at a broker: it registers at its start and unregisters when it closes."""

from __future__ import annotations

import pytest

from bolide.client import ClientStateError
from bolide.client.consuming.consumer import Consumer
from bolide.client.consuming.membership import CLUSTERING, PASSIVELY, GroupMembership
from bolide.client.consuming.offset_store import BrokerOffsets
from bolide.client.instance.options import ClientOptions
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.patient import patient
from tests.client.scripted_broker import ScriptedBroker


class Registered(Consumer):
    """Joins the group, and receives nothing."""

    def __init__(self, namesrv: str) -> None:
        member = GroupMembership("G", patient(ClientOptions.of(namesrv)), CLUSTERING, PASSIVELY, "last", self._serve)
        super().__init__("G", member, ())

    async def _join(self) -> None:
        instance = await self._member.register(lambda instance: BrokerOffsets(instance, "G"))
        await instance.route("T")
        await instance.heartbeats.send()

    async def _stop(self, complete: bool) -> None: ...

    async def _leave(self) -> None:
        await self._member.unregister()


async def test_consumer_without_rebalance_registers_and_unregisters(broker: ScriptedBroker) -> None:
    async with Registered(broker.address) as consumer:
        assert broker.members["G"] == {consumer.client_id}
        with pytest.raises(ClientStateError, match="consumer group G is started already"):
            await Registered(broker.address).start()
    assert broker.members["G"] == set()
    assert consumer._member._instance is None


async def test_request_that_no_consumer_serves_is_rejected(broker: ScriptedBroker) -> None:
    async with Registered(broker.address):
        broker.ask_all(codes.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"})
        broker.ask_all(codes.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G"})
        await until(lambda: len(broker.answers) > 0, "the response")
    (answer,) = broker.answers
    assert (answer.code, answer.remark) == (codes.REQUEST_CODE_NOT_SUPPORTED, "a Registered does not serve 307")
