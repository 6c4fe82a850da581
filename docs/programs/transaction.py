import asyncio

from bolide.client import Message, PushConsumer, ReceivedMessage, TransactionProducer, TransactionState

ledger: dict[str, bool] = {}  # stands for a database table with the outcome of each payment


class Payments:
    async def execute(self, message: Message, argument: int) -> TransactionState:
        ledger[message.keys_text] = argument <= 100
        return TransactionState.COMMIT if ledger[message.keys_text] else TransactionState.ROLLBACK

    async def check(self, message: ReceivedMessage) -> TransactionState:
        paid = ledger.get(message.keys[0])
        if paid is None:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if paid else TransactionState.ROLLBACK


async def main(namesrv: str = "") -> None:
    async with TransactionProducer("payments", namesrv, Payments()) as producer:
        for key, amount in (("payment-1", 500), ("payment-2", 20)):
            message = Message("Paid", b"%d coins" % amount, keys=key)
            print(key, (await producer.send_in_transaction(message, amount)).state.name)
        seen = asyncio.Event()

        async def take(message: ReceivedMessage) -> None:
            print(message.keys[0], message.body)
            seen.set()

        consumer = PushConsumer("goods", namesrv, start_from="first")
        consumer.subscribe("Paid", "*", take)
        async with consumer:
            await seen.wait()


if __name__ == "__main__":
    asyncio.run(main())
