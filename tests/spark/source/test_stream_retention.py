"""A broker, ours or Java's, deletes the files under a read that was planned and a stream that was stopped."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
from typing import Any

import pytest

from bolide.client import Message, MessageQueue
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import DataLost
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.spark.spark_versions import ReadAllAvailable
from bolide.transport.blocking import ClientConnection
from proof.kit.waiting import PATIENCE, wait_until
from tests.client.patient_blocking import Admin
from tests.spark.schemas import SCHEMA
from tests.spark.target import SEGMENT, Target

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COUNT = 60
SIZE = 5 * SEGMENT // 2 // COUNT


def options(target: Target, topic: str, **more: object) -> Any:
    return read_options(target.options(topic, **more), None)


def offsets(reader: Any, tasks: Any) -> list[int]:
    """What Spark would read of these tasks."""
    shipped = pickle.loads(pickle.dumps(reader))
    return [row["queue_offset"] for task in tasks for batch in shipped.read(task) for row in batch.to_pylist()]


def delete_full_files(target: Target) -> None:
    """Make the full files of the log as old as can be, and have the broker look at them whatever the hour."""
    for path in sorted((target.store / "commitlog").iterdir())[:-1]:
        os.utime(path, (0, 0))
    with ClientConnection.connect(target.broker_addr, PATIENCE) as connection:
        answer = connection.request(make_request(codes.DELETE_EXPIRED_COMMITLOG, 0, {}), 60)
        assert answer.code == codes.SUCCESS


def test_files_that_are_deleted_under_a_reader(rocketmq: Target, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    rocketmq.create_topic(topic, queues=1)
    noise = random.Random(1).randbytes(SIZE)  # which no producer makes smaller
    sent = rocketmq.send([Message(topic, noise) for _ in range(COUNT)])
    places = [int(result.offset_message_id[16:], 16) for result in sent]

    def files() -> list[int]:
        """Where the files of the log begin."""
        return sorted(int(path.name) for path in (rocketmq.store / "commitlog").iterdir())

    strict, tolerant = (RocketMQReader(options(rocketmq, topic, failOnDataLoss=fail), SCHEMA) for fail in (True, False))
    planned = strict.partitions()
    assert offsets(strict, planned) == list(range(COUNT))
    queue = MessageQueue(topic, rocketmq.broker_name, 0)
    delete_full_files(rocketmq)
    # Java looks at its files for the first time a minute after its start, and so comes late among the tests.
    wait_until(lambda: len(files()) <= 2, "the broker deletes files", 300)
    with Admin(rocketmq.namesrv_addr) as admin:
        wait_until(lambda: admin.begin_offset(queue) == sum(place < files()[0] for place in places), "its queues know")
        low = admin.begin_offset(queue)
    assert 5 < low < COUNT
    left = list(range(low, COUNT))

    gone = rf"^offset 0 of {topic}@broker-a:0 is gone: the broker holds {low} to {COUNT}; set failOnDataLoss to false"
    with pytest.raises(DataLost, match=gone):
        offsets(strict, planned)
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        assert offsets(tolerant, planned) == left
    assert [record.getMessage() for record in caplog.records] == [
        f"offset 0 of {topic}@broker-a:0 is gone: the broker holds {low} to {COUNT}; "
        "failOnDataLoss is false: the read continues"
    ]
    assert offsets(strict, strict.partitions()) == left, "a new read begins at the first message there is"

    reached = {"queues": {topic: {"broker-a": {"0": 5}}}}
    for fail in (True, False):
        stream = RocketMQStreamReader(options(rocketmq, topic, failOnDataLoss=fail), SCHEMA)
        end = json.loads(json.dumps(stream.latestOffset(reached, ReadAllAvailable())))
        tasks = stream.partitions(reached, end)
        if fail:
            with pytest.raises(DataLost, match=rf"^offset 5 of {topic}@broker-a:0 is gone: the broker holds {low} to"):
                offsets(stream, tasks)
        else:
            assert offsets(stream, tasks) == left
        stream.stop()
    # The message before this place has expired: whether it was the one that was read cannot be told, and need not be.
    read_out = {"queues": {topic: {"broker-a": {"0": low}}}, "last": {topic: {"broker-a": {"0": [1, 1]}}}}
    stream = RocketMQStreamReader(options(rocketmq, topic), SCHEMA)
    end = json.loads(json.dumps(stream.latestOffset(read_out, ReadAllAvailable())))
    assert offsets(stream, stream.partitions(read_out, end)) == left
    stream.stop()
