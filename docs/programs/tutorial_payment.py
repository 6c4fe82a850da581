"""Announce a payment only if the database has it."""

import asyncio
import sqlite3
from contextlib import closing

from bolide.client import Message, PushConsumer, ReceivedMessage, TransactionProducer, TransactionState


class Payments:
    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        database.execute("CREATE TABLE payment (number TEXT PRIMARY KEY, cents INTEGER CHECK (cents > 0))")

    async def execute(self, message: Message, cents: int) -> TransactionState:
        try:
            with self.database:
                self.database.execute("INSERT INTO payment VALUES (?, ?)", (message.keys_text, cents))
        except sqlite3.IntegrityError:
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT

    async def check(self, message: ReceivedMessage) -> TransactionState:
        found = self.database.execute("SELECT 1 FROM payment WHERE number = ?", (message.keys[0],)).fetchone()
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK


async def pay(namesrv: str, payments: Payments) -> None:
    async with TransactionProducer("payments", namesrv, payments) as producer:
        for number, cents in (("order-1", 320), ("order-2", -5)):
            outcome = await producer.send_in_transaction(Message("Payments", b"paid", keys=number), cents)
            print(number, outcome.state.name)
        done = asyncio.Event()

        async def book(message: ReceivedMessage) -> None:
            print("booked:", message.keys[0])
            done.set()

        consumer = PushConsumer("accounting", namesrv, start_from="first")
        consumer.subscribe("Payments", "*", book)
        async with consumer:
            await done.wait()


async def main(namesrv: str = "") -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        await pay(namesrv, Payments(database))


if __name__ == "__main__":
    asyncio.run(main())
