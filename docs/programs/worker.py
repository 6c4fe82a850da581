import asyncio
import logging
import os

from bolide.client import Message, Producer, PushConsumer, ReceivedMessage, run


async def main(namesrv: str = "") -> bool:
    bills = Producer("cashier", namesrv)

    async def bill(message: ReceivedMessage) -> None:
        await bills.send(Message("Bills", message.body, keys=message.keys))

    def brew(message: ReceivedMessage) -> None:  # not async: it runs in a thread
        print("brewed", message.body.decode(), flush=True)

    cashier = PushConsumer("cashier", namesrv, start_from="first")
    cashier.subscribe("Orders", "*", bill)
    kitchen = PushConsumer("kitchen", namesrv, start_from="first")
    kitchen.subscribe("Orders", "coffee || tea", brew)
    return await run(bills, cashier, kitchen, health=os.environ.get("HEALTH", ""), silent_after=300)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    raise SystemExit(0 if asyncio.run(main()) else 1)
