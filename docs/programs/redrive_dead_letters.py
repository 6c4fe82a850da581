"""Send the dead letters of a group to their topic again."""

import asyncio
import re
import sys

from bolide.client import Message, Producer, PullConsumer

OF_ROCKETMQ = re.compile("[A-Z0-9_]+|__transactionId__")


async def main(namesrv: str = "", group: str = "kitchen") -> None:
    dead = PullConsumer(f"{group}-redrive", namesrv, start_from="first", auto_commit=False)
    async with Producer("redrive", namesrv) as producer, dead:
        await dead.assign(await dead.queues(f"%DLQ%{group}"))
        while any((await dead.lag()).values()):
            for message in await dead.poll():
                topic = message.get_property("DLQ_ORIGIN_TOPIC") or message.properties["RETRY_TOPIC"]
                own = {name: value for name, value in message.properties.items() if not OF_ROCKETMQ.fullmatch(name)}
                again = Message(topic, message.body, tags=message.tags, keys=message.keys, properties=own)
                await producer.send(again)
                print(topic, message.body)
            await dead.commit()


if __name__ == "__main__":
    asyncio.run(main(group=sys.argv[1]))
