import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    async with Producer("orders", namesrv) as producer:
        print(await producer.send(Message("Orders", b"one coffee", tags="coffee", keys="order-1")))
    done = asyncio.Event()

    async def cook(message: ReceivedMessage) -> None:
        print(message.tags, message.body)
        done.set()

    consumer = PushConsumer("kitchen", namesrv, start_from="first")
    consumer.subscribe("Orders", "coffee || tea", cook)
    async with consumer:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
