import asyncio

from bolide.client import (
    TRACE_TOPIC,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TraceContext,
    decode_trace,
)


async def main(namesrv: str = "") -> None:
    seen = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        seen.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first", trace=True)
    consumer.subscribe("Traced", "*", take)
    async with Producer("orders", namesrv, trace=True) as producer, consumer:
        await producer.send(Message("Traced", b"one coffee", keys="order-1"))
        await seen.wait()
    steps: list[TraceContext] = []
    async with PullConsumer("watch", namesrv, start_from="first") as reader:
        reader.subscribe(TRACE_TOPIC)
        while len(steps) < 3:
            for message in await reader.poll():
                steps += decode_trace(message.body.decode())
    for step in sorted(steps, key=lambda step: step.kind):
        print(step.kind, step.group, step.beans[0].keys, step.success)


if __name__ == "__main__":
    asyncio.run(main())
