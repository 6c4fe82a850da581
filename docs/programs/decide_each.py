import asyncio

from bolide.client import DEAD_LETTER, ConsumeResult, Message, Producer, PushConsumer, ReceivedMessage, RetryLater


async def main(namesrv: str = "") -> None:
    async with Producer("orders", namesrv) as producer:
        for body in (b"good", b"busy", b"bad"):
            await producer.send(Message("Decisions", body))
    tries: list[str] = []

    async def decide(message: ReceivedMessage) -> ConsumeResult:
        tries.append(f"{message.body.decode()} {message.reconsume_times}")
        if message.body == b"busy" and message.reconsume_times == 0:
            raise RetryLater(1)  # redeliver in 1 s; level 2 is 5 s, ... 18 is 2 h
        if message.body == b"bad":
            raise RetryLater(DEAD_LETTER)  # do not retry: send to %DLQ%kitchen
        return ConsumeResult.SUCCESS

    consumer = PushConsumer("kitchen", namesrv, start_from="first")
    consumer.subscribe("Decisions", "*", decide)
    async with consumer:
        while len(tries) < 4 or any((await consumer.lag()).values()):
            await asyncio.sleep(0.1)
    print(sorted(tries))


if __name__ == "__main__":
    asyncio.run(main())
