"""Consumer filter data: versions, death and revival, its file, pulls that use it, bitmaps, retry topics."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.consumers.heartbeats import HeartbeatService
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Hold
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.topic_config import TopicConfig
from bolide.layout.ext_unit import is_ext_address
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, Parts, reply_of, send_request, text

DAY_MS = 24 * 3600 * 1000
GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "store-5.5.0-killed.tar.xz"


class Filtering(Parts):
    """The parts with expressions allowed, and heartbeats."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **{"enable_property_filter": True, **settings})
        self.heartbeats = HeartbeatService(
            self.options, self.effects, self.clients, self.topics, self.groups, self.filters
        )
        self.topics.put(TopicConfig("T", 4, 4), NOW)

    def beat(
        self, *subscriptions: dict[str, Any], now: int = NOW, channel: Channel | None = None, group: str = "g"
    ) -> None:
        """A heartbeat of a group with these subscriptions."""
        data = {
            "clientID": "c",
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": list(subscriptions),
                    "unitMode": False,
                }
            ],
            "producerDataSet": [],
        }
        command = make_request(codes.HEART_BEAT, 1, body=json.dumps(data).encode())
        assert reply_of(self.heartbeats.on_heart_beat(channel or self.channel, command, now)).code == 0

    def bodies(self, answer: Command) -> list[bytes]:
        return [record.body for record in decode_records(answer.body)]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Filtering]:
    made = Filtering(tmp_path)
    yield made
    made.close()


def sql(expression: str, version: int = 1, topic: str = "T", kind: str = "SQL92") -> dict[str, Any]:
    return {
        "topic": topic,
        "subString": expression,
        "expressionType": kind,
        "subVersion": version,
        "tagsSet": [],
        "codeSet": [],
        "classFilterMode": False,
    }


def test_a_pull_takes_the_filter_of_the_heartbeat(parts: Filtering) -> None:
    for number in range(4):
        parts.answer(send_request(body=b"%d" % number, properties=text(a=str(number))))
    parts.beat(sql("a > 1"))
    answer = parts.pulled(sys_flag=0, subVersion=1)
    assert (answer.code, parts.bodies(answer)) == (0, [b"2", b"3"])


def test_without_filter_data_27_and_with_an_old_one_28(parts: Filtering) -> None:
    parts.beat(sql("a > 'b'"))  # does not compile
    assert parts.pulled(sys_flag=0, subVersion=1).code == codes.FILTER_DATA_NOT_EXIST
    parts.beat(sql("a > 1", version=5))
    assert parts.pulled(sys_flag=0, subVersion=6).code == codes.SUBSCRIPTION_NOT_LATEST
    data = parts.filters.get("T", "g")
    assert data is not None
    data.client_version = 4
    assert parts.pulled(sys_flag=0, subVersion=5).code == codes.FILTER_DATA_NOT_LATEST


def test_without_the_property_filter_the_answer_is_1(tmp_path: Path) -> None:
    parts = Filtering(tmp_path, enable_property_filter=False)
    parts.beat(sql("a > 1"))
    assert parts.pulled(sys_flag=0, subVersion=1).code == codes.SYSTEM_ERROR
    parts.close()


def test_an_unknown_type_is_told_the_known_ones(parts: Filtering) -> None:
    answer = parts.pulled(expressionType="XPATH", subscription="a")
    assert answer.code == codes.SUBSCRIPTION_PARSE_FAILED and "use TAG or SQL92" in str(answer.remark)


def test_class_filter_is_refused_and_nothing_is_registered(parts: Filtering) -> None:
    parts.answer(send_request(properties=text(TAGS="x")))
    subscription = {**sql("org.example.Filter", kind="TAG"), "classFilterMode": True}
    with pytest.raises(Refused, match="the subscription to T names a Java class as its filter"):
        parts.beat(subscription)
    assert parts.clients.consumer_group("g") is None
    assert parts.pulled(sys_flag=0, subVersion=1).code == codes.SUBSCRIPTION_NOT_EXIST
    body = {"clientId": "c", "group": "g", "subscriptionData": subscription}
    command = make_request(codes.CHECK_CLIENT_CONFIG, 1, body=json.dumps(body).encode())
    with pytest.raises(Refused, match="subscribe with an SQL92 expression, or filter in the consumer"):
        parts.heartbeats.on_check_client_config(parts.channel, command, NOW)


def test_versions(parts: Filtering) -> None:
    filters = parts.filters

    def expression() -> str:
        data = filters.get("T", "g")
        return "" if data is None else data.expression

    parts.beat(sql("a > 1", version=5))
    parts.beat(sql("a > 2", version=5))
    parts.beat(sql("a > 2", version=4))
    assert expression() == "a > 1"
    parts.beat(sql("a > 2", version=6), now=NOW + 7)
    data = filters.get("T", "g")
    assert data is not None and (data.expression, data.born_time) == ("a > 2", NOW + 7)
    parts.beat(sql("a > 2", version=8), now=NOW + 9)
    assert filters.get("T", "g") is data and (data.client_version, data.born_time) == (8, NOW + 7)
    parts.beat(sql("a >", version=9))
    assert filters.get("T", "g") is None


def test_death_and_revival(parts: Filtering) -> None:
    parts.beat(sql("a > 1"), sql("b > 1", topic="U"))
    on_t: Any = parts.filters.get("T", "g")
    on_u: Any = parts.filters.get("U", "g")
    parts.beat(sql("b > 1", topic="U"), now=NOW + 1)
    assert on_t.is_dead and not on_u.is_dead
    parts.beat(sql("a > 1"), sql("b > 1", topic="U"), now=NOW + 2)
    assert not on_t.is_dead
    other = Channel(9, PEER, "10.1.2.3:9", 10911)
    parts.beat(sql("a > 1"), sql("b > 1", topic="U"), now=NOW + 2, channel=other)
    parts.heartbeats.channel_closed(other, NOW + 3)
    assert not on_t.is_dead
    parts.heartbeats.channel_closed(parts.channel, NOW + 3)
    assert (on_t.dead_time, on_u.dead_time) == (NOW + 3, NOW + 3)
    parts.filters.tick(NOW + 3 + DAY_MS - 1, 100)
    assert parts.filters.get("T", "g") is on_t
    parts.filters.tick(NOW + 3 + DAY_MS, 100)
    assert parts.filters.get("T", "g") is None and json.loads(parts.filters.encode()) == {"filterDataByTopic": {}}


def test_the_file_is_asked_for_when_something_changed(parts: Filtering) -> None:
    assert parts.filters.due(NOW) is None
    parts.beat(sql("a > 1"))
    parts.filters.tick(NOW, 100)
    assert "consumerFilter" in parts.effects.persists
    parts.effects.persists.clear()
    parts.beat(sql("a > 1"))
    assert parts.filters.due(NOW) == NOW + 10_000
    parts.filters.tick(NOW + 10_000, 100)
    assert "consumerFilter" not in parts.effects.persists


def test_the_file_of_java_reads_and_reads_the_same_again(parts: Filtering) -> None:
    with tarfile.open(GOLDEN) as archive:
        member = archive.extractfile("store-5.5.0-killed/store/config/consumerFilter.json")
        assert member is not None
        stored = member.read()
    parts.filters.load(stored)
    data = parts.filters.get("golden_filter", "golden_sql_a")
    assert data is not None and data.is_dead
    assert (data.expression, data.positions) == ("a > 5 AND region = 'hz'", [34, 18, 71])
    assert json.loads(parts.filters.encode()) == json.loads(stored)


def test_live_filter_is_dead_after_a_crash(parts: Filtering) -> None:
    parts.beat(sql("a > 1"))
    stored = parts.filters.encode()
    after = ConsumerFilters(parts.options, parts.filters.filters, parts.effects, NOW + 60_000)
    after.load(stored)
    data = after.get("T", "g")
    assert data is not None and data.is_dead and data.dead_time == NOW + 30_000


def test_data_of_another_bloom_filter_is_ignored(parts: Filtering) -> None:
    parts.beat(sql("a > 1"))
    stored = parts.filters.encode().replace(b"112", b"120")
    parts.filters.load(stored)
    assert parts.filters.get("T", "g") is None


def test_a_held_pull_wakes_by_its_expression(parts: Filtering) -> None:
    parts.beat(sql("a > 1"))
    outcome = parts.pull(sys_flag=2, suspend=1000, subVersion=1)
    assert isinstance(outcome, Hold) and outcome.waiter.records is not None
    passes = outcome.waiter.records.predicate
    assert passes is not None and passes(b"a\x012\x02") and not passes(b"a\x011\x02")


def test_bitmaps_are_written_and_spare_reading_records(tmp_path: Path) -> None:
    parts = Filtering(tmp_path, enable_consume_queue_ext=True, enable_calc_filter_bit_map=True)
    parts.answer(send_request(body=b"before", properties=text(a="0")))
    parts.beat(sql("a > 1"))
    later = NOW + 1000
    for number in range(4):
        parts.send(send_request(body=b"%d" % number, properties=text(a=str(number), TAGS="x")), later)
        parts.store.write_pending()
        parts.store.dispatch(10, later)
    queue = parts.store.queues.get("T", 0)
    data = parts.filters.get("T", "g")
    assert queue is not None and queue.ext is not None and data is not None
    found = []
    for _, _, address in parts.store.units("T", 0, 0, 10):
        assert is_ext_address(address)
        unit = queue.ext.unit(address)
        assert unit is not None
        found.append((len(unit.bitmap), data.filter.units is not None and data.filter.units.passes(later, unit.bitmap)))
    assert found == [(0, True), (14, False), (14, False), (14, True), (14, True)]
    seen: list[bytes] = []
    evaluate = data.filter.predicate
    assert evaluate is not None

    def counting(properties: bytes) -> bool:
        seen.append(properties)
        return evaluate(properties)

    data.filter.predicate = counting
    answer = parts.pulled(sys_flag=0, subVersion=1)
    assert parts.bodies(answer) == [b"2", b"3"]
    assert len(seen) == 3  # the one from before the group, and the two that match
    assert answer.ext()["nextBeginOffset"] == "5"
    parts.close()


@pytest.mark.parametrize("step", [3_600_000, -20_000])
def test_bitmaps_from_before_a_group_say_nothing_of_it_though_the_clock_was_set(tmp_path: Path, step: int) -> None:
    parts = Filtering(tmp_path, enable_consume_queue_ext=True, enable_calc_filter_bit_map=True)
    parts.beat(sql("a > 5"), group="h")
    if step > 0:
        parts.store.clock_set(step)
    parts.answer(send_request(body=b"before", properties=text(a="2")))
    if step < 0:
        parts.store.clock_set(step)
    parts.beat(sql("a > 1"))
    assert parts.bodies(parts.pulled(sys_flag=0, subVersion=1)) == [b"before"]
    parts.close()


def test_a_retry_topic_is_filtered_by_the_topic_it_comes_from(tmp_path: Path) -> None:
    parts = Filtering(tmp_path, filter_support_retry=True)
    parts.beat(sql("a > 1"), sql("TRUE", topic="%RETRY%g"))
    for number in range(3):
        parts.answer(send_request("%RETRY%g", b"%d" % number, text(a=str(number), RETRY_TOPIC="T")))
    parts.answer(send_request("%RETRY%g", b"of none", text(a="0", RETRY_TOPIC="V")))
    answer = parts.pulled(topic="%RETRY%g", sys_flag=0, subVersion=1)
    assert parts.bodies(answer) == [b"2", b"of none"]
    parts.close()


def test_check_client_config(parts: Filtering) -> None:
    def check(expression: str, kind: str = "SQL92") -> int:
        body = {"clientId": "c", "group": "g", "subscriptionData": sql(expression, kind=kind)}
        command = make_request(codes.CHECK_CLIENT_CONFIG, 1, body=json.dumps(body).encode())
        return reply_of(parts.heartbeats.on_check_client_config(parts.channel, command, NOW)).code

    assert [check("a = 5"), check("a ="), check("*", "TAG"), check("a", "XPATH")] == [0, 23, 0, 23]


def test_filters_of_all_groups_have_a_limit(tmp_path: Path) -> None:
    parts = Filtering(tmp_path)
    parts.filters.configure(BrokerOptions.of(max_consumer_filter_size=2 * (256 + 10)))

    def by(topic: str, text: str, version: int = 1) -> dict[str, Any]:
        return {"topic": topic, "subString": text, "expressionType": "SQL92", "subVersion": version}

    parts.beat(by("T", "a = 1"))
    parts.beat(by("T", "a = 1"), by("U", "a = 2"))
    with pytest.raises(Refused, match=r"the filter of group\[g\] cannot be kept: maxConsumerFilterSize is 532"):
        parts.beat(by("T", "a = 1"), by("U", "a = 2"), by("V", "a = 3"))
    parts.beat(by("T", "a = 4", 2), by("U", "a = 2"))  # one in the place of another
    parts.beat(by("T", "a = 4", 2))
    parts.beat(by("T", "a = 4", 2), by("V", "a = 3"))  # U's is dead, and goes
    assert parts.filters.get("U", "g") is None and parts.filters.get("V", "g") is not None
    parts.close()


def test_unreadable_file_changes_no_filter(parts: Filtering) -> None:
    parts.beat(sql("a > 1"))
    stored = parts.filters.encode()
    entry = json.loads(stored)["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    for bad in ({"topic": 1} | {"bloomFilterData": entry["bloomFilterData"]}, entry | {"bornTime": "x"}):
        data = {"filterDataByTopic": {"T": {"groupFilterData": {"a": entry | {"consumerGroup": "a"}, "g": bad}}}}
        with pytest.raises((KeyError, ValueError)):
            parts.filters.load(json.dumps(data).encode())
        assert parts.filters.encode() == stored
