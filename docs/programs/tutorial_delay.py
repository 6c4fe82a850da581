"""Remind a guest who has not picked up an order."""

import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    async with Producer("till", namesrv) as producer:
        await producer.send(Message("PickUps", b"your coffee gets cold", keys="order-1", delay=2))
    done = asyncio.Event()

    async def remind(message: ReceivedMessage) -> None:
        print("reminder:", message.body.decode())
        done.set()

    consumer = PushConsumer("counter", namesrv, start_from="first")
    consumer.subscribe("PickUps", "*", remind)
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
