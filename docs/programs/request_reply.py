import asyncio

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage


async def main(namesrv: str = "") -> None:
    consumer = PushConsumer("calculator", namesrv, start_from="first", instance_name="server")

    async def square(message: ReceivedMessage) -> None:
        await consumer.reply_to(message, b"%d" % (int(message.body) ** 2))

    consumer.subscribe("Squares", "*", square)
    async with consumer, Producer("askers", namesrv) as producer:
        answer = await producer.request(Message("Squares", b"12"), timeout=10)
        print(answer.body)


if __name__ == "__main__":
    asyncio.run(main())
