import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from bolide.broker.expressions import Compiled
from bolide.broker.hooks import BrokerHook, SendCall
from bolide.broker.refused import Refused
from bolide.client import Message, MessageQueue, Producer, PushConsumer, ReceivedMessage, ResponseError, selector
from bolide.layout.record import Record

stored: Counter[str] = Counter()


class CountTopics:
    """A dispatcher: receives every stored record, in order."""

    from_first = True

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.broker_name = settings["brokerName"]

    def dispatch(self, records: Sequence[Record]) -> None:
        stored.update(record.topic for record in records)


class NoPasswords(BrokerHook):
    """A broker hook: rejects messages that contain a password."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        pass

    def before_send(self, call: SendCall) -> None:
        if b"password" in call.body:
            raise Refused(13, "passwords are not sent through this broker")


def begins(text: str) -> Compiled:
    """An expression type: the property `city` starts with the text."""
    return Compiled(None, lambda properties: properties["city"].startswith(text))


def first_takes_all(
    group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """A rebalance strategy: one client reads all queues, and another replaces it when it leaves."""
    return list(queues) if client_id == clients[0] else []


async def main(namesrv: str = "") -> None:
    done = asyncio.Event()

    async def land(message: ReceivedMessage) -> None:
        print(message.body)
        done.set()

    async with Producer("flights", namesrv) as producer:
        try:
            await producer.send(Message("Flights", b"my password is 1234"))
        except ResponseError as refused:
            print(refused.code)
        await producer.send(Message("Flights", b"PEK-BER", properties={"city": "Berlin"}))
        await producer.send(Message("Flights", b"PEK-HGH", properties={"city": "Hangzhou"}))
    tower = PushConsumer("tower", namesrv, start_from="first", strategy="FIRST_TAKES_ALL")
    tower.subscribe("Flights", selector("BEGINS", "Hang"), land)
    async with tower:
        await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
