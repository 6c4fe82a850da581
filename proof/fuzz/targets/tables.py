"""The tables of a store, its JSON files: read, or refused so that the copy before them is tried; and written again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.consumers.assignments import AssignmentService
from bolide.broker.core.effects import Effects
from bolide.broker.core.rows import Text
from bolide.broker.core.service import Table
from bolide.broker.core.stats import BrokerStats
from bolide.broker.delay.delay_levels import DelayService
from bolide.broker.delay.timer_metrics import TimerMetrics
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.pull_filter import FilterCache
from bolide.broker.tables.topics import TopicTable
from bolide.layout.delay import parse_delay_levels
from bolide.namesrv.effects import NamesrvEffects
from bolide.namesrv.kv import KvFile, KvService, read_kv
from bolide.namesrv.options import NamesrvOptions, Settings
from bolide.node.loop.persist import load_reason
from bolide.remoting.bodies import encode_body
from bolide.remoting.errors import BodyError
from bolide.store.message_store import MessageStore
from bolide.testing.files import SimulatedFiles
from proof.fuzz import damage, seeds
from proof.fuzz.damage import replace
from proof.fuzz.target import KIB, MIB, Broken, Limits, Target

WORDS: Final = (
    *(b'"topicConfigTable":{', b'"subscriptionGroupTable":{', b'"offsetTable":{', b'"dataVersion":{', b'"counter":'),
    *(
        b'"readQueueNums":',
        b'"retryQueueNums":',
        b'"perm":',
        b'"attributes":{',
        b"1e999",
        b"99999999999999999999",
        b"-1",
    ),
    *(
        b'"forbiddenTable":{',
        b'"groupRetryPolicy":{',
        b'"subscriptionDataSet":[',
        b"null",
        b"[]",
        b"{}",
        b'"T@g":{',
        b"{0:",
    ),
    *(
        b'"pullOffsetTable":{',
        b'"lmqOffsetTable":{',
        b'"%LMQ%a@%LMQ%a":',
        b'"bloomFilterData":{"bitNum":112,"bitPos":[',
    ),
    *(b"]}", b'"made_by_use":["g"]', b'"\\ud800":', b"true", b'"timingCount":{"T":{"count":', b',"timeStamp":', b"1.5"),
)


@functools.cache
def _store() -> MessageStore:
    files = SimulatedFiles()
    files.make_dir(damage.ROOT)
    store = damage.open_store(files)
    store.load(damage.NOW)
    return store


def _topics(options: BrokerOptions) -> Table:
    return TopicTable(options, Effects(), damage.NOW)


def _groups(options: BrokerOptions) -> Table:
    return GroupTable(options, Effects(), damage.NOW)


def _offsets(options: BrokerOptions) -> Table:
    return ConsumerOffsets(Effects(), options.shape.enable_lmq)


def _filters(options: BrokerOptions) -> Table:
    return ConsumerFilters(options, FilterCache(), Effects(), damage.NOW)


def _delays(options: BrokerOptions) -> Table:
    _store().on_taken_back.clear()  # each service of this one store adds itself
    writer = LogWriter(_store(), damage.HOST, 18, TimerRules(options), BrokerStats(damage.NOW).topic_puts)
    levels = parse_delay_levels(options.shape.message_delay_level)
    return DelayService(levels, writer, Effects(), damage.NOW, 10_000)


def _modes(options: BrokerOptions) -> Table:
    topics, groups = TopicTable(options, Effects(), damage.NOW), GroupTable(options, Effects(), damage.NOW)
    return AssignmentService(options, topics, groups, Clients(), Effects(), None)


TABLES: Final[tuple[Callable[[BrokerOptions], Table], ...]] = (_topics, _groups, _offsets, _filters, _delays, _modes)
OPTIONS: Final = (BrokerOptions.of(), BrokerOptions.of(enable_lmq=True, enable_multi_dispatch=True))


def table(data: bytes) -> None:
    """A table's file: refused, and then the table is as it was; or read, and what is written of it reads the same."""
    if not data:
        return
    make = TABLES[data[0] % len(TABLES)]
    options = OPTIONS[data[0] // len(TABLES) % len(OPTIONS)]
    made = make(options)
    before = _text(made)
    reason = load_reason(made, data[1:])
    if reason:
        if "MemoryError" in reason:
            raise Broken(reason)
        if _text(made) != before:
            raise Broken(f"{made.persist_name} was refused ({reason}) and is changed all the same")
        return
    written = _text(made)
    again = make(options)
    reason = load_reason(again, written) if written else ""
    if reason:
        raise Broken(f"{made.persist_name} cannot read what it wrote: {reason}: {written!r:.200}")
    if _text(again) != written:
        raise Broken(f"{made.persist_name}: {written!r:.200} is read as {_text(again)!r:.200}")


def _text(made: Table) -> bytes:
    made.begin()
    while not made.step(1000):
        pass
    text = made.text()
    return text.join() if isinstance(text, Text) else text


def metrics(data: bytes) -> None:
    """The figures of the timer, where the copy before counts when the file cannot be read."""
    files = SimulatedFiles()
    files.make_dir("/s/config")
    replace(files, "/s/config/timermetrics", data)
    found = TimerMetrics(damage.NOW)
    found.load(files, "/s")
    found.add("T", 1, damage.NOW)
    TimerMetrics(damage.NOW).load(files, "/s")
    found.encode()


def kv_config(data: bytes) -> None:
    """The name server's keys and values: refused with a BodyError, or read so that they can be written."""
    try:
        found = read_kv(data)
    except BodyError:
        return
    service = KvService(NamesrvEffects(), Settings(NamesrvOptions()), data)
    for namespace in found:
        service.namespace_body(namespace)
        for key in found[namespace]:
            service.get(namespace, key)
    if read_kv(encode_body(KvFile(found))) != found:
        raise Broken(f"{found!r:.200} is read as something else")


def _tables() -> Iterable[bytes]:
    for number, make in enumerate(TABLES):
        for name in ("5.5.0-clean", "4.9.7-clean", "5.5.0-ext"):
            path = f"config/{make(OPTIONS[0]).persist_name}.json"
            found = seeds.golden(name).get(path)
            if found and len(found) < 16 * KIB:
                yield bytes([number]) + found
        yield bytes([number]) + _text(make(OPTIONS[0]))[:4000]
        yield bytes([number + len(TABLES)]) + EXAMPLES[number]


EXAMPLES: Final = (
    b'{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicFilterType":'
    b'"SINGLE_TAG","topicSysFlag":0,"order":true,"attributes":{"message.type":"FIFO"}}},"dataVersion":{"counter":1,'
    b'"stateVersion":0,"timestamp":5}}',
    b'{"subscriptionGroupTable":{"g":{"groupName":"g","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16,'
    b'"brokerId":0,"groupRetryPolicy":{"type":"CUSTOMIZED"},"subscriptionDataSet":[{"topic":"T"}],"attributes":{}}},'
    b'"forbiddenTable":{"g":{"T":2}},"dataVersion":{"counter":1,"timestamp":5}}',
    b'{"offsetTable":{"T@g":{0:1,1:2},"%LMQ%a@%LMQ%a":{0:3}},"pullOffsetTable":{"T@h":{"0":4}},"lmqOffsetTable":'
    b'{"%LMQ%b@%LMQ%b":5},"dataVersion":{"counter":1,"timestamp":5,"stateVersion":0}}',
    b'{"filterDataByTopic":{"T":{"groupFilterData":{"g":{"bloomFilterData":{"bitNum":112,"bitPos":[90,68,28]},'
    b'"bornTime":5,"clientVersion":1,"consumerGroup":"g","deadTime":0,"expression":"a > 5","expressionType":"SQL92",'
    b'"topic":"T"}},"topic":"T"}}}',
    b'{"offsetTable":{1:5,2:6,18:1},"dataVersion":{"counter":1,"timestamp":5}}',
    b'{"messageRequestModeMap":{"T":{"g":{"topic":"T","consumerGroup":"g","mode":"PULL","popShareQueueNum":0}}}}',
)


def _metrics() -> Iterable[bytes]:
    yield b'{"dataVersion":{"counter":1,"timestamp":5},"timingCount":{"T":{"count":5,"timeStamp":6}}}'


def _kv() -> Iterable[bytes]:
    yield b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"b:4"},"n":{"k":"v"}}}'


TARGETS: Final = (
    Target("table", table, _tables, Limits(memory=8 * MIB, memory_per_byte=3000, steps=0), words=WORDS, cost=4),
    Target("metrics", metrics, _metrics, Limits(memory_per_byte=2000), words=WORDS),
    Target("kv_config", kv_config, _kv, Limits(memory_per_byte=2000), words=WORDS),
)
