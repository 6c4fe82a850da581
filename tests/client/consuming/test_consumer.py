"""The life of a consumer without rebalance, such as one for POP."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import ClientStateError, Interceptor
from bolide.client.consuming.consumer import Consumer
from bolide.client.consuming.membership import CLUSTERING, PASSIVELY, GroupMembership
from bolide.client.instance.options import ClientOptions
from proof.kit.waiting import PATIENCE


class Plain(Consumer):
    """Records the steps of its life."""

    def __init__(self, *interceptors: Interceptor, broken: bool = False) -> None:
        member = GroupMembership("G", ClientOptions(), CLUSTERING, PASSIVELY, "last", lambda command: None)
        super().__init__("G", member, interceptors)
        self.broken = broken
        self.steps: list[str] = []

    async def _join(self) -> None:
        if self.broken:
            raise OSError("no broker")
        self.steps.append("join")

    async def _stop(self, complete: bool) -> None:
        self.steps.append("complete" if complete else "failed")

    async def _leave(self) -> None:
        self.steps.append("leave")


class Steps(Interceptor):
    """Records its start and close among the steps of its consumer."""

    steps: list[str]

    async def start(self) -> None:
        self.steps.append("interceptor starts")

    async def close(self) -> None:
        self.steps.append("interceptor closes")


async def test_a_consumer_joins_once_and_leaves_once() -> None:
    consumer = Plain()
    assert await consumer.start() is consumer
    await consumer.start()
    assert repr(consumer) == "<Plain group 'G', open>"
    await consumer.close()
    await consumer.close()
    assert consumer.steps == ["join", "complete", "leave"]
    with pytest.raises(ClientStateError, match="is closed, make a new one"):
        await consumer.start()


async def test_a_block_that_fails_is_not_complete() -> None:
    with pytest.raises(KeyError):
        async with Plain() as consumer:
            raise KeyError("x")
    assert consumer.steps == ["join", "failed", "leave"]


async def test_interceptors_start_first_and_close_before_the_group_is_left() -> None:
    seen = Steps()
    consumer = Plain(seen)
    seen.steps = consumer.steps
    async with consumer:
        pass
    assert consumer.steps == ["interceptor starts", "join", "complete", "interceptor closes", "leave"]


async def test_interceptors_of_a_consumer_that_cannot_join_are_closed() -> None:
    seen = Steps()
    consumer = Plain(seen, broken=True)
    seen.steps = consumer.steps
    with pytest.raises(OSError, match="no broker"):
        await consumer.start()
    assert consumer.steps == ["interceptor starts", "interceptor closes"]
    consumer.broken = False
    async with consumer:  # a failed start may be repeated
        assert consumer.steps[2:] == ["interceptor starts", "join"]


async def test_an_interceptor_that_starts_its_consumer_does_not_wait_for_itself() -> None:
    class Starting(Steps):
        consumer: Plain

        async def start(self) -> None:
            assert await self.consumer.start() is self.consumer
            await super().start()

        async def close(self) -> None:
            with pytest.raises(ClientStateError, match="is closed"):
                await self.consumer.start()

    starting = Starting()
    starting.consumer = consumer = Plain(starting)
    starting.steps = consumer.steps
    async with asyncio.timeout(PATIENCE), consumer:
        assert consumer.steps == ["interceptor starts", "join"]


async def test_a_consumer_that_was_not_started_closes() -> None:
    consumer = Plain()
    await consumer.close()
    assert consumer.steps == []
