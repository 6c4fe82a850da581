"""A slave asks its master for tables: pages, ports, masters that know less, and progress that waits for the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bolide.access.users import Credentials
from bolide.broker.tables.topic_config import TopicConfig
from bolide.node.routes.master_tables import MasterTables
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.connection import FramedConnection
from bolide.world.real import THE_WORLD
from proof.kit.ports import reserve_port
from proof.kit.waiting import PATIENCE, until
from tests.broker.operator.followers import Followers
from tests.node.brokers import broker
from tests.node.routes.slaves import QUICK, slave

Answers = dict[int, Callable[[Command], Command]]


class Master(asyncio.Protocol):
    """A master that answers as it is told to; what it has no answer for it does not support."""

    def __init__(self, answers: Answers, asked: list[int], connections: list[asyncio.Transport]) -> None:
        self._connections = connections
        self._answers = answers
        self._asked = asked
        self._frames = FramedConnection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.append(transport)

    def data_received(self, data: bytes) -> None:
        for command in self._frames.receive(data):
            self._asked.append(command.code)
            answer = self._answers.get(command.code)
            refusal = make_response(command, codes.REQUEST_CODE_NOT_SUPPORTED, "no")
            self._frames.send(refusal if answer is None else answer(command))
        self._transport.write(b"".join(self._frames.data_to_send()))


@asynccontextmanager
async def scripted(answers: Answers, port: int = 0) -> AsyncIterator[tuple[str, list[int]]]:
    """A master on a free port, and the codes it was asked. The port two below it, the fast one, is free as well."""
    asked: list[int] = []
    connections: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    made = port or reserve_port(-2)
    server = await loop.create_server(lambda: Master(answers, asked, connections), "127.0.0.1", made)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()
        for connection in connections:
            connection.abort()
        await server.wait_closed()


def body(fields: object, **ext: str) -> Callable[[Command], Command]:
    data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return lambda command: make_response(command, 0, ext=ext, body=data)


def plain(**more: Any) -> Answers:
    """A master of 4.9 with nothing in its tables."""
    version = {"counter": 1, "timestamp": 2}
    found = {
        "topics": {"dataVersion": version, "topicConfigTable": {"T": {"topicName": "T"}}},
        "groups": {"dataVersion": version, "subscriptionGroupTable": {"g": {"groupName": "g"}}},
        "offsets": {"offsetTable": {"T@g": {"0": 5}}},
        "delays": {"offsetTable": {"1": 3}},
        "end": "1000",
        **more,
    }
    return {
        codes.GET_ALL_TOPIC_CONFIG: body(found["topics"]),
        codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: body(found["groups"]),
        codes.GET_ALL_CONSUMER_OFFSET: body(found["offsets"]),
        codes.GET_ALL_DELAY_OFFSET: body(found["delays"]),
        codes.GET_BROKER_RUNTIME_INFO: body({"table": {"commitLogMaxOffset": found["end"]}}),
    }


async def test_a_slave_has_all_that_a_master_of_ours_tells(tmp_path: Path) -> None:
    port = reserve_port(-2)
    async with broker(tmp_path / "master", listen_port=port, fast_port_enable="true") as (node, _):
        parts, now = node.parts, node.clock.now()
        for number in range(2100):
            parts.topics.put(TopicConfig(f"T{number}", 2, 3), now)
        parts.groups.find("g", now)
        parts.groups.forbid_read("h", "T1", True, now)
        parts.offsets.commit("g", "T1", 1, 7, now)
        # Not queue 0: the master's own service commits its progress there, once a second.
        parts.offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 1, 3, now)
        parts.delay.damaged.take_more([(0, 1)])
        async with slave(tmp_path / "slave", node.address) as follower:
            await follower.rounds()
            own = follower.parts
            assert own.delay.damaged.places() == [[0, 1]]
            names = {f"T{number}" for number in range(2100)}
            assert names <= own.topics.table.keys()
            assert own.topics.table["T2099"].to_json() == parts.topics.table["T2099"].to_json()
            assert own.topics.data_version.to_json() == parts.topics.data_version.to_json()
            assert own.groups.table["g"].to_json() == parts.groups.table["g"].to_json()
            assert not own.groups.may_read("h", "T1")
            assert own.committed("g", "T1", 1) == 7
            assert own.committed("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 1) == 3
            parts.topics.delete("T7", now)
            parts.topics.put(TopicConfig("New"), now)
            parts.offsets.commit("g", "T1", 1, 9, now)
            await follower.rounds(2)
            assert "T7" not in own.topics.table and "New" in own.topics.table
            assert own.dropped == ["T7"]
            assert own.committed("g", "T1", 1) == 9
            assert follower.turns > 0
            await follower.tables.stop()
            parts.delay.damaged.take_more([(7, 1)])
            await follower.tables._progress(False)  # between two rounds, with the timer's checkpoint
            assert own.delay.damaged.places() == [[0, 1], [7, 1]]
            await follower.tables.stop()


async def test_another_server_at_the_fast_port_is_not_asked(tmp_path: Path) -> None:
    other = plain(topics={"dataVersion": {"counter": 9}, "topicConfigTable": {"Other": {"topicName": "Other"}}})
    async with scripted(plain()) as (address, _):
        port = int(address.rpartition(":")[2])
        async with scripted(other, port - 2) as (_, asked), slave(tmp_path, address) as follower:
            await follower.rounds(2)
            assert "T" in follower.parts.topics.table
            assert "Other" not in follower.parts.topics.table
            assert asked == []


async def test_a_master_without_the_fast_port_and_of_4_9(tmp_path: Path) -> None:
    async with scripted(plain()) as (address, asked), slave(tmp_path, address) as follower:
        await follower.rounds(3)
        parts = follower.parts
        assert "T" in parts.topics.table and "g" in parts.groups.table
        assert parts.topics.data_version.to_json() == {"counter": 1, "stateVersion": 0, "timestamp": 2}
        assert parts.committed("g") == 5
        for code in (codes.GET_ALL_MESSAGE_REQUEST_MODE, codes.GET_TIMER_METRICS, codes.GET_TIMER_CHECK_POINT):
            assert asked.count(code) == 1, "a master that does not know it is not asked for it again"


async def test_progress_waits_until_the_log_has_what_it_counts_as_done(tmp_path: Path) -> None:
    async with scripted(plain()) as (address, asked), slave(tmp_path, address) as follower:
        follower.log_end = 999
        await follower.rounds(3)
        parts = follower.parts
        assert "T" in parts.topics.table
        assert (parts.committed("g"), json.loads(parts.delay.encode())["offsetTable"]) == (-1, {})
        assert asked.count(codes.GET_ALL_CONSUMER_OFFSET) == 1, "what waits is not replaced by what waits longer"
        follower.log_end = 1000
        await follower.rounds(2)
        assert (parts.committed("g"), json.loads(parts.delay.encode())["offsetTable"]) == (5, {"1": 3})
        await until(lambda: asked.count(codes.GET_ALL_CONSUMER_OFFSET) > 1)


async def test_progress_of_a_master_that_is_gone_is_not_taken(tmp_path: Path) -> None:
    switched = asyncio.Event()

    async with slave(tmp_path, "") as follower:
        follower.log_end = 1

        def last(command: Command) -> Command:
            follower.tables.master_is("")
            follower.log_end = 1 << 40
            switched.set()
            return make_response(command, 0, body=b'{"table":{"commitLogMaxOffset":"1000"}}')

        answers = {**plain(), codes.GET_BROKER_RUNTIME_INFO: last}
        async with scripted(answers) as (address, _):
            follower.tables.master_is(address)
            await switched.wait()
            turns = follower.turns
            await until(lambda: follower.turns > turns)
            assert follower.parts.committed("g") == -1


async def test_a_table_that_changes_between_two_pages_is_asked_for_once_more(tmp_path: Path) -> None:
    pages = [
        ({"counter": 1, "timestamp": 2}, ["A"]),
        ({"counter": 2, "timestamp": 3}, ["C"]),
        ({"counter": 2, "timestamp": 3}, ["B"]),
        ({"counter": 2, "timestamp": 3}, ["C"]),
    ]
    places: list[tuple[str, str]] = []

    def page(command: Command) -> Command:
        version, names = pages[min(len(places), len(pages) - 1)]
        places.append((command.ext()["topicSeq"], command.ext()["dataVersion"]))
        table = {"dataVersion": version, "topicConfigTable": {name: {"topicName": name} for name in names}}
        return make_response(command, 0, ext={"totalTopicNum": "2"}, body=json.dumps(table).encode())

    answers = {**plain(), codes.GET_ALL_TOPIC_CONFIG: page}
    async with scripted(answers) as (address, _), slave(tmp_path, address) as follower:
        await follower.rounds()
        own = follower.parts.topics
        assert {name for name in own.table if name not in own.system} == {"B", "C"}
        second = json.dumps({"counter": 2, "stateVersion": 0, "timestamp": 3})
        first = json.dumps({"counter": 1, "stateVersion": 0, "timestamp": 2})
        assert places[:4] == [("0", ""), ("1", first), ("0", ""), ("1", second)]


async def test_a_request_that_fails_holds_up_no_other(tmp_path: Path) -> None:
    answers = {**plain(), codes.GET_ALL_TOPIC_CONFIG: lambda command: make_response(command, 1, "broken")}
    async with scripted(answers) as (address, _), slave(tmp_path, address) as follower:
        await until(lambda: follower.parts.committed("g") == 5 and "g" in follower.parts.groups.table)
        assert follower.tables.rounds == 0
        answers.update(plain())
        await follower.rounds()
        assert "T" in follower.parts.topics.table


async def test_a_master_that_comes_back_is_followed_again(tmp_path: Path) -> None:
    port = reserve_port()
    async with slave(tmp_path, f"127.0.0.1:{port}") as follower:
        for offset in (5, 6):
            answers = plain(offsets={"offsetTable": {"T@g": {"0": offset}}})
            async with scripted(answers, port):
                await until(partial(lambda wanted: follower.parts.committed("g") == wanted, offset))


@pytest.mark.parametrize("truncated", [False, True], ids=["connection lost", "log truncated"])
async def test_pending_progress_is_dropped_once_the_log_may_diverge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truncated: bool
) -> None:
    """The master may have lost the end of its log with its machine, and have other records there when it returns."""
    answers = plain()
    async with scripted(answers) as (address, _), slave(tmp_path, "") as follower:
        applied: list[Any] = []
        following = follower.parts.following
        apply = following.take_offsets

        def noted(answer: dict[str, Any]) -> Iterator[None]:
            applied.append(answer["offsetTable"])
            return apply(answer)

        monkeypatch.setattr(following, "take_offsets", noted)
        follower.log_end = 999
        follower.tables.master_is(address)
        await follower.rounds(2)
        answers[codes.GET_ALL_CONSUMER_OFFSET] = body({"offsetTable": {"T@g": {"0": 4}}})
        if truncated:
            await follower.tables.stop()
            follower.tables.start()
        else:
            follower.log_end = -1
            await follower.rounds(2)
        follower.log_end = 1000
        await until(lambda: len(applied) > 0)
        assert applied[0] == {"T@g": {"0": 4}}


async def test_a_broker_does_not_follow_itself(tmp_path: Path) -> None:
    async with scripted(plain()) as (address, asked):
        parts = Followers(tmp_path)
        tables = MasterTables(parts.following, address, lambda: 0, lambda: None, None, THE_WORLD, QUICK)
        tables.start()
        tables.master_is(address)
        await asyncio.sleep(0)
        await tables.stop()
        assert asked == []
        parts.close()


async def test_a_master_answers_as_java_does(tmp_path: Path) -> None:
    """The bodies of 43, 45, 402 and 61 that a Java slave reads."""
    async with broker(tmp_path) as (node, client):
        now = node.clock.now()
        node.parts.offsets.commit("newg", "HaT", 0, 3, now)
        node.parts.delay.load(b'{"offsetTable":{1:1}}')
        told = {}
        for code in (43, 45, 402, 61):
            answer = await client.request(make_request(code, 0), PATIENCE)
            told[code] = json.loads(answer.body)
            told[code].pop("dataVersion", None)
        assert told == {
            43: {"groupTopicMap": {"newg": ["HaT"]}, "offsetTable": {"HaT@newg": {"0": 3}}, "pullOffsetTable": {}},
            45: {"offsetTable": {"1": 1}},
            402: {"messageRequestModeMap": {}},
            61: {"timingCount": {}},
        }


async def test_a_master_with_access_control_tells_who_signs(tmp_path: Path) -> None:
    settings = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "authorization_strict": True,
        "inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"innerpw"}',
    }
    async with broker(tmp_path / "m", **settings) as (node, _), slave(tmp_path / "s", node.address) as made:
        await until(lambda: made.turns >= 2)
        assert made.tables.rounds == 0
        made.tables.credentials = Credentials("inner", "a guess")
        tried = made.turns
        await until(lambda: made.turns >= tried + 2)
        assert made.tables.rounds == 0
        made.tables.credentials = Credentials("inner", "innerpw")
        await made.rounds()


@pytest.mark.parametrize(
    ("careful", "messages", "stays"), [(True, False, True), (False, True, True), (False, False, False)]
)
async def test_a_topic_with_messages_goes_only_when_its_master_had_it(
    tmp_path: Path, careful: bool, messages: bool, stays: bool
) -> None:
    """The master may have been promoted before it heard of it. Under a controller one without messages stays, too."""

    def rows(counter: int, *names: str) -> dict[str, Any]:
        version = {"counter": counter, "timestamp": 2}
        return {"dataVersion": version, "topicConfigTable": {name: {"topicName": name} for name in names}}

    told = rows(1, "T", "Old")
    answers = plain()
    answers[codes.GET_ALL_TOPIC_CONFIG] = lambda command: body(told)(command)
    async with scripted(answers) as (address, _), slave(tmp_path, "") as follower:
        follower.parts.topics.put(TopicConfig("New", 2, 3), 0)
        follower.tables.careful = careful
        follower.parts.following.has_messages = lambda topic: messages
        follower.tables.master_is(address)
        await follower.rounds(3)  # the later ones are of the same version
        table = follower.parts.topics.table
        assert {"T", "Old"} <= table.keys()
        assert ("New" in table) is stays
        told = rows(2, "T")
        await follower.rounds(2)  # the first may have been told before
        assert "Old" not in table
        assert ("New" in table) is stays
        assert ("New" in follower.parts.dropped) is not stays
        told = rows(3, "T", "More")
        asked = follower.tables.rounds
        follower.tables.look_soon()
        await until(lambda: follower.tables.rounds > asked and "More" in table)


async def test_recreated_topic_is_deleted_once_the_log_reaches_the_deletion(tmp_path: Path) -> None:
    """Told with the table only: a slave that has a table of this version asks for it once when it begins."""
    version = {"counter": 1, "stateVersion": 0, "timestamp": 2}
    rows = {"T": {"topicName": "T"}, "U": {"topicName": "U"}}
    told = {"dataVersion": version, "topicConfigTable": rows, "deletedTopics": {"T": 700, "U": 900}}
    answers = plain()
    async with scripted(answers) as (address, _), slave(tmp_path, "") as follower:
        own = follower.parts
        follower.log_end = 999
        list(own.following.take_topics(rows, version, set()))
        answers[codes.GET_ALL_TOPIC_CONFIG] = body(told)
        follower.tables.master_is(address)
        await follower.rounds(3)
        assert own.dropped_older == [] and own.committed("g") == -1, "both wait for the log"
        follower.log_end = 1000
        await until(lambda: own.committed("g") == 5)
        assert own.dropped_older == [("T", 700), ("U", 900)]
        await follower.rounds(3)
        assert own.dropped_older == [("T", 700), ("U", 900)], "once for each table that is told"


async def test_a_topic_that_was_deleted_while_the_slave_was_away_goes_with_its_messages(tmp_path: Path) -> None:
    """The master was never seen to have it; where its log ended then says which messages go."""
    answers = plain()
    table = {"dataVersion": {"counter": 9}, "topicConfigTable": {"T": {"topicName": "T"}}}
    answers[codes.GET_ALL_TOPIC_CONFIG] = body({**table, "deletedTopics": {"New": 700, "Late": 750, "Later": 800}})
    async with scripted(answers) as (address, _), slave(tmp_path, "") as follower:
        own, following = follower.parts, follower.parts.following
        left = {"New": 600, "Late": 999, "Later": 1000}
        following.has_messages = lambda topic: left.get(topic, 0) > 0
        following.has_messages_after = lambda topic, offset: left.get(topic, 0) > offset
        following.drop_older = lambda topic, offset: left.update({topic: left[topic] if left[topic] > offset else 0})
        follower.log_end = 999
        for topic in left:
            own.topics.put(TopicConfig(topic, 2, 3), 0)
        follower.tables.master_is(address)
        await follower.rounds(2)
        assert left.keys() <= own.topics.table.keys(), "its log is not that far"
        follower.log_end = 1000
        await until(lambda: "New" not in own.topics.table)
        assert "Late" not in own.topics.table, "the master has its messages, which were delayed, and no topic"
        assert "Later" in own.topics.table, "some of its messages came after the master was asked"
        assert own.topics.denied == {"Late": 999}, "nothing is left of the other"
        assert own.dropped == []
        follower.tables.master_is("")
        assert own.topics.denied, "this broker may be the next master"
        follower.tables.master_is("127.0.0.1:2")
        assert not own.topics.denied, "offsets in its log may mean other messages"


async def test_a_topic_that_its_master_finds_a_round_later_is_not_forgotten(tmp_path: Path) -> None:
    """It was made again before this master was one, and it looks for messages of topics that it was not told of."""
    rows: dict[str, Any] = {"T": {"topicName": "T"}}
    marks, again = {"Again": 700}, TopicConfig("Again", 2, 3)
    asked = 0

    def tell(command: Command) -> Command:
        nonlocal asked
        asked += 1
        if asked > 1:
            rows["Again"] = again.to_json()
        table = {"dataVersion": {"counter": asked}, "topicConfigTable": rows, "deletedTopics": marks}
        return body(table)(command)

    answers = plain()
    answers[codes.GET_ALL_TOPIC_CONFIG] = tell
    async with scripted(answers) as (address, _), slave(tmp_path, "") as follower:
        own = follower.parts
        own.following.has_messages = lambda topic: topic == "Again"
        follower.log_end = 1000
        own.topics.put(again, 0)
        follower.tables.master_is(address)
        await follower.rounds(4)
        assert own.topics.table["Again"] is again, "it never went"
        assert own.dropped_older, "its former life has ended all the same"


async def test_deletions_of_another_master_are_dropped(tmp_path: Path) -> None:
    answers, others = plain(), plain()
    table = {"dataVersion": {"counter": 9}, "topicConfigTable": {"T": {"topicName": "T"}}}
    answers[codes.GET_ALL_TOPIC_CONFIG] = body({**table, "deletedTopics": {"T": 700}})
    others[codes.GET_ALL_TOPIC_CONFIG] = lambda command: make_response(command, 1, "broken")
    async with (
        scripted(answers) as (address, _),
        scripted(others) as (other, _),
        slave(tmp_path, address) as follower,
    ):
        follower.log_end = 999
        await follower.rounds(3)
        follower.tables.master_is(other)
        follower.log_end = 1000
        await until(lambda: follower.parts.committed("g") == 5)
        assert follower.parts.dropped_older == []
        others[codes.GET_ALL_TOPIC_CONFIG] = body({**table, "deletedTopics": {"T": 300}})
        await until(lambda: follower.parts.dropped_older == [("T", 300)])
