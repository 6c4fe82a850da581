"""What a store of offsets writes to brokers, and when it writes again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.client import MessageQueue
from bolide.client.consuming.offset_store import BrokerOffsets, FileOffsets
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from tests.client.patient import patient
from tests.client.scripted_broker import ScriptedBroker, UnlockedOffsets

QUEUE = MessageQueue("T", "broker-a", 0)


async def test_unconfirmed_offset_is_rewritten_and_confirmed_one_is_not(broker: ScriptedBroker) -> None:
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        await instance.route("T")
        store = BrokerOffsets(instance, "G")

        async def persist(offset: int, wait: bool) -> None:
            store.update(QUEUE, offset)
            await store.persist([QUEUE], wait)

        await persist(5, True)
        await persist(5, True)
        await persist(9, False)
        await persist(9, False)
        await persist(5, True)  # back again: what was answered long ago says nothing
        written = broker.requests(codes.UPDATE_CONSUMER_OFFSET)
        assert [int(command.ext()["commitOffset"]) for command in written] == [5, 9, 9, 5]
        assert await store.load(QUEUE) == 5
    finally:
        await instance.release()


async def test_offsets_stored_on_a_replica_reach_the_returning_master() -> None:
    with ScriptedBroker() as master, ScriptedBroker() as replica:
        instance = ClientInstance.acquire(patient(ClientOptions.of(master.address)))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            store.update(QUEUE, 5)
            await store.persist([QUEUE], True)
            master.addresses = {"1": replica.address}
            await instance.fetch_route("T")
            store.update(QUEUE, 9)
            await store.persist([QUEUE], True)
            assert (master.offsets["G", "T", 0], replica.offsets["G", "T", 0]) == (5, 9)
            master.addresses = None
            await instance.fetch_route("T")
            await store.persist([QUEUE], True)
            assert master.offsets["G", "T", 0] == 9
        finally:
            await instance.release()


async def test_the_progress_that_a_pull_carried_does_not_replace_what_was_stored_for_certain(
    broker: ScriptedBroker,
) -> None:
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        await instance.route("T")
        store = BrokerOffsets(instance, "G")
        store.update(QUEUE, 3)
        await store.persist([QUEUE], True)
        store.update(QUEUE, 4)
        assert store.carry(QUEUE) == 4
        store.update(QUEUE, 25)

        def late(command: Command) -> Command:
            """The broker's thread for pulls stores what the pull carried after the first commit."""
            broker.script[codes.UPDATE_CONSUMER_OFFSET] = broker.on_update_consumer_offset
            broker.on_update_consumer_offset(command)
            broker.offsets["G", "T", 0] = 4
            return make_response(command, codes.SUCCESS)

        broker.script[codes.UPDATE_CONSUMER_OFFSET] = late
        await store.persist([QUEUE], True)
        assert broker.offsets["G", "T", 0] == 25
        assert len(broker.requests(codes.UPDATE_CONSUMER_OFFSET)) == 3

        store.update(QUEUE, 30)
        assert store.carry(QUEUE) == 30
        store.update(QUEUE, 31)
        store.carried(QUEUE)  # answered: there is nothing to look for
        asked = len(broker.requests(codes.QUERY_CONSUMER_OFFSET))
        await store.persist([QUEUE], True)
        assert len(broker.requests(codes.QUERY_CONSUMER_OFFSET)) == asked
    finally:
        await instance.release()


@pytest.mark.parametrize("wait", [True, False])
async def test_the_first_commits_of_a_group_are_all_kept_where_the_first_one_makes_the_table(wait: bool) -> None:
    queues = [MessageQueue(topic, "broker-a", number) for topic in ("T", "U") for number in range(4)]
    with UnlockedOffsets(queues=4) as broker:
        instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            for number, queue in enumerate(queues):
                store.update(queue, 5 + number)
                assert store.carry(queue) == -1, "a pull would be a first commit"
            # Two tasks at once, as when queues are given back while the rest is written.
            await asyncio.gather(store.persist(queues[1:], wait), store.persist(queues[:2], wait))
            assert [await store.load(queue) for queue in queues] == list(range(5, 13))
            assert [store.carry(queue) for queue in queues] == list(range(5, 13))
        finally:
            await instance.release()


async def test_a_group_with_stored_offsets_commits_together_at_once() -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(3)]
    with ScriptedBroker(queues=3) as broker:
        broker.offsets["G", "T", 1] = 7
        instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            assert [await store.load(queue) for queue in queues] == [-1, 7, -1]
            for queue in queues:
                store.update(queue, 9)
            broker.script[codes.UPDATE_CONSUMER_OFFSET] = lambda command: None  # none is answered
            await store.persist(queues, False)
            await instance.call(broker.address, codes.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
            assert len(broker.requests(codes.UPDATE_CONSUMER_OFFSET)) == 3
        finally:
            await instance.release()


async def test_a_refused_first_commit_makes_no_table_so_the_next_is_alone_too() -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(4)]
    with UnlockedOffsets(queues=4) as broker:
        instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            for queue in queues:
                store.update(queue, 9)

            def refuse(command: Command) -> Command:
                del broker.script[codes.UPDATE_CONSUMER_OFFSET]
                return make_response(command, codes.ILLEGAL_OPERATION, "no such queue")

            broker.script[codes.UPDATE_CONSUMER_OFFSET] = refuse
            await store.persist(queues, True)
            assert broker.offsets == {("G", "T", number): 9 for number in (1, 2, 3)}
        finally:
            await instance.release()


async def test_first_commits_wait_no_longer_than_one_for_a_broker_that_does_not_answer() -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(4)]
    ended: list[int] = []
    with ScriptedBroker(queues=4) as broker:
        instance = ClientInstance.acquire(ClientOptions.of(broker.address))
        try:
            await instance.route("T")
            store = BrokerOffsets(instance, "G")
            for queue in queues:
                store.update(queue, 9)
            writes = [asyncio.ensure_future(store.persist([queue], True)) for queue in queues]

            def ignore(command: Command) -> None:
                ended.append(sum(write.done() for write in writes))

            broker.script[codes.UPDATE_CONSUMER_OFFSET] = ignore
            await asyncio.gather(*writes)
        finally:
            await instance.release()
    assert len(ended) == 4 and max(ended) <= 1, "the others are sent together once the first has waited in vain"


@pytest.mark.parametrize("damaged", [b"", b"\0" * 200, b"null", b'{"offsetTable":{{"bro'])
async def test_backup_replaces_a_damaged_file(tmp_path: Path, damaged: bytes) -> None:
    store = FileOffsets("me", "G", tmp_path)
    assert store.path is not None
    store.update(QUEUE, 5)
    await store.persist([QUEUE], True)
    store.path.with_suffix(".json.bak").write_bytes(store.path.read_bytes())
    store.path.write_bytes(damaged)
    assert await FileOffsets("me", "G", tmp_path).load(QUEUE) == 5


HOMELESS = """
import asyncio
from bolide.client import MessageQueue
from bolide.client.consuming.offset_store import FileOffsets

async def main():
    store = FileOffsets("me", "G")
    queue = MessageQueue("T", "b", 0)
    store.update(queue, 5)
    await store.persist([queue], True)
    print(await store.load(queue))

asyncio.run(main())
"""


def test_user_without_a_home_folder_keeps_offsets_in_memory() -> None:
    # Asking for the user of a number that has no account fails as it does in a container.
    program = "import pwd\ndef nobody(number): raise KeyError(number)\npwd.getpwuid = nobody\n" + HOMELESS
    env = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    assert "offsets of group G are not stored, because this user has no home folder" in done.stderr
