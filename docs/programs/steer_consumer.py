import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    taken: list[bytes] = []

    async def take(message: ReceivedMessage) -> None:
        taken.append(message.body)

    consumer = PushConsumer("kitchen", namesrv, start_from="first", concurrency=4)
    consumer.subscribe("Steered", "*", take)
    async with consumer, Producer("orders", namesrv) as producer:
        for number in range(3):
            await producer.send(Message("Steered", b"%d" % number))
        while len(taken) < 3:
            await asyncio.sleep(0.01)
        await consumer.seek_to_time(0)  # ms since 1970, or a datetime with a zone: everything again
        while len(taken) < 6:
            await asyncio.sleep(0.01)
        print("nothing left:", await consumer.drain(timeout=30))
        await producer.send(Message("Steered", b"later"))
        print("behind by", sum((await consumer.lag()).values()))
    print(len(taken))


if __name__ == "__main__":
    asyncio.run(main())
