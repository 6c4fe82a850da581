"""Sending from a test, so that what Spark reads is what a producer sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bolide.client import Message, SendResult
from tests.client.patient import Producer


def send(namesrv: str, messages: Sequence[Message]) -> list[SendResult]:
    """Send all and return where each is."""

    async def run() -> list[SendResult]:
        async with Producer("spark-tests", namesrv) as producer:
            results = await producer.send_many(messages)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if isinstance(result, SendResult)]

    return asyncio.run(run())
