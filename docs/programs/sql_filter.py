import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage, sql


async def main(namesrv: str = "") -> None:
    async with Producer("weather", namesrv) as producer:
        for city, degrees in (("Oslo", -4), ("Rome", 17), ("Cairo", 31)):
            await producer.send(Message("Weather", city.encode(), properties={"degrees": str(degrees)}))
    warm: list[bytes] = []
    done = asyncio.Event()

    async def take(message: ReceivedMessage) -> None:
        warm.append(message.body)
        if len(warm) == 2:
            done.set()

    consumer = PushConsumer("beach", namesrv, start_from="first")
    consumer.subscribe("Weather", sql("degrees > 15"), take)
    async with consumer:
        await done.wait()
    print(sorted(warm))


if __name__ == "__main__":
    asyncio.run(main())
