"""What the pages show of a cluster with topics, groups, dead letters and delays, and what their forms change."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from bolide.admin import BrokerRow
from bolide.admin.newest import MOST_SKIPPED
from bolide.client import Message
from bolide.client.tracing.trace import SENT, TraceBean, TraceContext, encode_trace
from bolide.console.cluster import NEWEST
from bolide.console.figures import ShownBroker, soon_ending
from bolide.console.render import environment
from bolide.layout.limits import MAX_FOUND
from bolide.layout.names import DLQ_PREFIX, TRACE_TOPIC
from bolide.testing.broker import Broker
from bolide.world.clocks import now_ms
from proof.kit.waiting import until, wait_until
from tests.client.patient import Admin, Producer, PushConsumer
from tests.console.browsing import Browser, browsing, send, text_of, with_producer
from tests.transport.certificates import Certificate

TOPIC, GROUP = "orders", "billing"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Ten orders, of which the group has four."""
    with Broker() as running:
        running.create_topic(TOPIC, queues=1)
        send(running, *(Message(TOPIC, b'{"order": %d}' % n, tags="new", keys=f"k{n}") for n in range(10)))

        async def group() -> None:
            async with Admin(running.namesrv_addr) as admin:
                await admin.create_group(GROUP)
                (queue,) = (await admin.topic_route(TOPIC)).read_queues()
                await admin.set_group_offset(GROUP, queue, 4)

        asyncio.run(group())
        yield running


@pytest.fixture
def browser(broker: Broker) -> Iterator[Browser]:
    with browsing(broker) as found:
        yield found


def test_the_map_and_a_broker(browser: Browser, broker: Broker) -> None:
    for path in ("/", "/cluster/figures"):
        told = text_of(browser.get(path))
        assert "The broker serves" in told and "broker-a async master serves" in told and broker.broker_addr in told
    told = text_of(browser.get(f"/brokers/show?address={broker.broker_addr}"))
    assert "putTps" in told and "Stop writes" in told
    assert "Scrub: waiting; no damage" in told
    told = text_of(browser.get("/stores"))
    assert "Every disk has room" in told or "nearly full" in told
    assert "Oldest message" in told
    assert "producers avoid broker-a" in browser.change("/brokers/stop-writes", {"broker": "broker-a"})
    assert "producers use broker-a again" in browser.change("/brokers/allow-writes", {"broker": "broker-a"})


def test_a_topic_is_made_changed_and_deleted(browser: Browser) -> None:
    assert "topic made is created on broker-a" in browser.change("/topics/create", {"topic": "made", "queues": "2"})
    assert browser.post("/topics/create", {"topic": "made"}).status_code == 409
    fields = {"topic": "made", "read_queues": "3", "write_queues": "3", "perm": "4", "order": "on"}
    told = text_of(browser.change("/topics/change", fields))
    assert "topic made is changed on broker-a" in told and "read only permission, ordered" in told
    fields |= {"read_queues": "2000", "write_queues": "2000"}
    assert "topic made is changed on broker-a" in text_of(browser.change("/topics/change", fields))
    told = browser.change("/topics/change", {**fields, "read_queues": "65537"})
    assert "read_queues is 65537, give a whole number from 1 to 65536" in told
    assert "made" in browser.get("/topics?q=MAD")
    assert browser.post("/topics/delete", {"topic": "made", "typed": "mad"}).status_code == 400
    assert "topic made is deleted" in browser.change("/topics/delete", {"topic": "made", "typed": "made"})
    browser.get("/topics/show?topic=made", 404)


def test_a_topic_says_who_is_behind(browser: Browser) -> None:
    told = text_of(browser.get(f"/topics/show?topic={TOPIC}"))
    assert "1 of 1 group lags billing by 6" in told
    assert "10 messages kept" in told


def test_a_group_is_made_changed_and_deleted(browser: Browser) -> None:
    assert "group made is created" in browser.change("/groups/create", {"group": "made", "consume_enable": "on"})
    told = text_of(browser.change("/groups/change", {"group": "made", "retry_max_times": "3"}))
    assert "group made is changed" in told
    many = {"group": "made", "retry_max_times": "-1", "retry_queues": "65"}
    assert "group made is changed" in text_of(browser.change("/groups/change", many))
    assert "stopped" in browser.get("/groups?q=made")
    fields = {"group": "made", "typed": "made", "remove_offset": "on"}
    assert "group made is deleted" in browser.change("/groups/delete", fields)
    browser.get("/groups/show?group=made", 404)


def test_a_group_is_reset_as_planned(browser: Browser) -> None:
    told = text_of(browser.get(f"/groups/show?group={GROUP}"))
    assert "6 messages wait, and no member is connected" in told
    assert re.search(r"Lag in time .* 4 10 6 [0-9.]+ (ms|s|min) ", told)
    for sort in ("name", "lag"):
        assert re.search(rf"{GROUP} 6 [0-9.]+ (ms|s|min)", text_of(browser.get(f"/groups?sort={sort}")))
    asked = f"/groups/plan?group={GROUP}&topic={TOPIC}"
    assert "6 messages are skipped" in text_of(browser.get(f"{asked}&to=last"))
    assert "4 messages are redelivered" in text_of(browser.get(f"{asked}&to=first"))
    assert "messages are" in text_of(browser.get(f"{asked}&to=time&time=2020-01-01T00:00"))
    browser.get(f"{asked}&to=time", 400)
    browser.get(f"{asked}&to=time&time=yesterday", 400)
    told = text_of(browser.change("/groups/reset", {"group": GROUP, "topic": TOPIC, "to": "last"}))
    assert "are reset: 1 queues" in told and "Caught up" in told
    assert re.search(rf"{GROUP} 0 – ", text_of(browser.get("/groups")))
    fields = {"group": GROUP, "topic": TOPIC, "to": "time", "time": "1600000000000"}
    assert "10 messages wait" in text_of(browser.change("/groups/reset", fields))


def test_messages_by_time_key_id_and_place(browser: Browser) -> None:
    told = text_of(browser.get(f"/messages?topic={TOPIC}"))
    assert told.index('"order": 9') < told.index('"order": 0')
    assert "No messages" in browser.get(f"/messages?topic={TOPIC}&end=2020-01-01T00:00")
    page = browser.get(f"/messages?topic={TOPIC}&by=key&key=k3")
    assert '"order": 3' in text_of(page) and '"order": 4' not in text_of(page)
    shows = re.search(r'href="(/messages/show[^"]*)"', page)
    assert shows
    told = text_of(browser.get(unescape(shows[1])))
    assert '"order": 3' in told and "No client has recorded a trace of it" in told
    unique = re.search(r'<h1 class="mono">(\w+)</h1>', browser.get(unescape(shows[1])))
    assert unique
    assert '"order": 3' in text_of(browser.get(f"/messages?topic={TOPIC}&by=id&id={unique[1]}"))
    assert "No messages" in browser.get(f"/messages?topic={TOPIC}&by=id&id=ABC")
    told = text_of(browser.get(f"/messages?topic={TOPIC}&by=place&broker=broker-a&queue=0&offset=8"))
    assert '"order": 8' in told and '"order": 7' not in told
    assert TOPIC in browser.get("/messages")


def test_a_trace_is_drawn(broker: Broker, browser: Browser) -> None:
    broker.create_topic("traced")
    (result,) = send(broker, Message("traced", b"x"), trace=True)
    path = f"/messages/show?topic=traced&id={result.message_id}"
    page = browser.get(path)
    assert '<svg class="trace"' in page and "send by P" in page and "stored, " in page


def test_a_trace_beyond_the_most_says_so(broker: Broker, browser: Browser) -> None:
    broker.create_topic("long-trace")
    (result,) = send(broker, Message("long-trace", b"x"))
    path = f"/messages/show?topic=long-trace&id={result.message_id}"
    records = [
        encode_trace(TraceContext(SENT, 1_000 + n, "P", (TraceBean(result.message_id),))).encode()
        for n in range(MAX_FOUND)
    ]
    send(broker, *(Message(TRACE_TOPIC, body, keys=result.message_id) for body in records[1:]))
    wait_until(lambda: '<svg class="trace"' in browser.get(path))
    assert "there may be more steps" not in browser.get(path)
    send(broker, Message(TRACE_TOPIC, records[0], keys=result.message_id))
    wait_until(
        lambda: f"{MAX_FOUND} trace messages, as many as it may, so there may be more steps" in browser.get(path)
    )


def test_a_message_is_sent_sent_again_and_consumed(broker: Broker, browser: Browser) -> None:
    broker.create_topic("sent", queues=1)
    fields = {"topic": "sent", "body": "zwölf\r\nlines", "tags": "t", "keys": "a b", "properties": "colour=red\n\n"}
    told = text_of(browser.change("/messages/send", fields))
    assert "zwölf lines" in told and "colour red" in told and "a b" in told
    assert browser.post("/messages/send", {**fields, "properties": "colour"}).status_code == 400
    assert browser.post("/messages/send", {**fields, "topic": "nothing"}).status_code == 404
    assert browser.post("/messages/send", {**fields, "body": ""}).status_code == 400
    assert "KEYS" in text_of(browser.change("/messages/send", {**fields, "properties": "KEYS=x"}))
    assert "it will be delivered in 3,600 s" in browser.change("/messages/send", {**fields, "delay": "3600"})
    wait_until(lambda: "sent 1" in text_of(browser.get("/waiting")), "the timer to take it from the log")
    found = re.search(r"id=([0-9A-F]{32})", browser.get("/messages?topic=sent"))
    assert found
    again = {"id": found[1], "topic": "sent", "to": "sent"}
    assert "resent to sent@broker-a:0" in browser.change("/messages/again", again)
    assert text_of(browser.get("/messages?topic=sent")).count("zwölf") == 2

    async def consume() -> str:
        consumer = PushConsumer("readers", broker.namesrv_addr, start_from="last")
        seen: list[bytes] = []
        consumer.subscribe("sent", "*", lambda message: seen.append(message.body))
        async with consumer:
            await until(lambda: len(consumer.assignment()) > 0, "its queue")
            fields = {"id": found[1], "topic": "sent", "group": "readers"}
            told = await asyncio.to_thread(browser.change, "/messages/consume", fields)
            assert seen
            page = await asyncio.to_thread(browser.get, "/groups/show?group=readers")
            assert consumer.client_id in page
            path = f"/groups/member?group=readers&client={quote(consumer.client_id)}"
            assert "Queues it holds" in await asyncio.to_thread(browser.get, path)
            return told

    assert "returned CR_SUCCESS" in asyncio.run(consume())
    assert browser.post("/messages/consume", {**again, "group": "readers"}).status_code == 409


def test_dead_letters_go_back(broker: Broker, browser: Browser) -> None:
    dead = DLQ_PREFIX + GROUP
    broker.create_topic(dead, queues=1)
    broker.create_topic("back", queues=1)
    letter = Message(dead, b"dead", keys="d1")
    send(broker, letter, letter)
    assert f"{GROUP} 2" in text_of(browser.get("/dead-letters"))
    assert "2 dead letters" in text_of(browser.get(f"/groups/show?group={GROUP}"))
    assert re.search("2 dead letters", text_of(browser.get("/")))
    page = browser.get(f"/dead-letters/show?group={GROUP}")
    ids = re.findall(r'name="id" value="(\w+)"', page)
    assert len(ids) == 2
    assert browser.post("/dead-letters/redrive", {"group": GROUP}).status_code == 400
    refused = browser.post("/dead-letters/redrive", {"group": GROUP, "id": ids})
    assert "enter a topic" in unescape(refused.text)
    told = browser.change("/dead-letters/redrive", {"group": GROUP, "id": ids, "to": "back"})
    assert "2 of 2 dead letters are resent" in told
    assert text_of(browser.get("/messages?topic=back")).count("dead") >= 2
    orders = re.findall(r"id=([0-9A-F]{32})", browser.get(f"/messages?topic={TOPIC}"))
    stranger = browser.post("/dead-letters/redrive", {"group": GROUP, "id": [orders[0]], "to": "back"})
    assert stranger.status_code == 404


def test_status_of_a_group_names_its_dead_letters(broker: Broker, browser: Browser) -> None:
    async def group() -> None:
        async with Admin(broker.namesrv_addr) as admin:
            await admin.create_group("patient")
            (queue,) = (await admin.topic_route(TOPIC)).read_queues()
            await admin.set_group_offset("patient", queue, await admin.end_offset(queue))

    asyncio.run(group())
    broker.create_topic(f"{DLQ_PREFIX}patient", queues=1)
    send(broker, Message(f"{DLQ_PREFIX}patient", b"dead"))
    assert "Caught up, with 1 dead letter " in text_of(browser.get("/groups/show?group=patient"))


def test_delay_levels_show_what_comes_next(broker: Broker, browser: Browser) -> None:
    send(broker, Message(TOPIC, b"in two hours", delay_level=18))
    told = text_of(browser.get("/waiting"))
    assert "broker-a 2h 18 1" in told
    told = text_of(browser.get("/waiting?broker=broker-a&level=18"))
    assert "in two hours" in told and TOPIC in told


def test_a_setting_that_differs_is_shown_and_a_live_one_changed(broker: Broker, browser: Browser) -> None:
    told = text_of(browser.get("/settings"))
    assert "flushDiskType ASYNC_FLUSH" in told and "fileReservedTime" not in told
    fields = {"of": broker.broker_addr, "key": "fileReservedTime", "value": "48"}
    told = text_of(browser.change("/settings/change", fields))
    assert f"fileReservedTime is 48 at {broker.broker_addr}" in told
    assert "fileReservedTime 48" in text_of(browser.get("/settings"))
    refused = browser.change("/settings/change", {**fields, "key": "flushDiskType", "value": "SYNC_FLUSH"})
    assert "verdict bad" in refused
    assert "name server" in browser.get(f"/settings?of={broker.namesrv_addr}&show=all")


def test_without_access_control_the_page_says_what_that_means(browser: Browser) -> None:
    assert "any client that reaches a broker may do everything" in text_of(browser.get("/access"))


def test_older_messages_are_shown_once_each(broker: Broker, browser: Browser) -> None:
    """Messages of one batch are stored in one millisecond."""
    broker.create_topic("batches", queues=2)

    async def batches(producer: Producer) -> None:
        for first in range(0, 600, 150):
            await producer.send_batch([Message("batches", b"row-%d-" % n) for n in range(first, first + 150)])

    with_producer(broker, batches)
    shown: Counter[str] = Counter()
    path = "/messages?topic=batches"
    while path:
        page = browser.get(path)
        shown.update(re.findall(r"row-\d+-", text_of(page)))
        older = re.search(r'rel="next" href="([^"]*)"', page)
        path = unescape(older[1]) if older else ""
    assert len(shown) == 600 and set(shown.values()) == {1}


def test_a_crowded_millisecond_ends_the_older_pages_with_a_sentence(broker: Broker, browser: Browser) -> None:
    broker.create_topic("crowded", queues=1)
    count = MOST_SKIPPED + 2 * NEWEST

    async def batch(producer: Producer) -> None:
        await producer.send_batch([Message("crowded", b"row-%d-" % n) for n in range(count)])

    with_producer(broker, batch)
    older = re.search(r'rel="next" href="([^"]*)"', browser.get("/messages?topic=crowded"))
    assert older is not None
    page = browser.get(unescape(older[1]).replace(f"skip={NEWEST}", f"skip={MOST_SKIPPED}"))
    assert len(re.findall(r"row-\d+-", text_of(page))) == NEWEST and 'rel="next"' not in page
    assert f"{MOST_SKIPPED + NEWEST:,} messages of one millisecond are before the next page" in text_of(page)


def test_messages_by_key_beyond_the_most_say_so(broker: Broker, browser: Browser) -> None:
    broker.create_topic("keyed", queues=1)
    send(broker, *(Message("keyed", b"x", keys="same") for _ in range(MAX_FOUND - 1)))
    path = "/messages?topic=keyed&by=key&key=same"
    assert "there may be more" not in browser.get(path)
    send(broker, Message("keyed", b"x", keys="same"))
    assert "there may be more" in browser.get(path)
    assert "No messages" in browser.get(f"{path}&end=2020-01-01T00:00")


def test_pages_warn_before_the_certificate_of_the_console_ends(broker: Broker) -> None:
    day = 86_400_000
    for left, said in ((20, ""), (3, "certificate of this console ends in 2 days"), (-1, "of this console has ended")):
        with browsing(broker, certificate_end=partial(int, now_ms() + left * day)) as browser:
            told = text_of(browser.get("/topics"))
            assert said in told and ("certificate" in told) == bool(said)


def test_the_map_and_the_page_of_a_broker_warn_before_its_certificate_ends(tmp_path: Path) -> None:
    own = Certificate(tmp_path)
    with Broker(tls_cert_path=own.cert, tls_key_path=own.key) as secured, browsing(secured) as browser:
        name = re.search(r"<td class=\"name\"><b>(.*?)</b>", browser.get("/"))
        warned = f"The certificate of {name and name[1]} 0 ends in 1 day"
        assert warned in text_of(browser.get("/")) and warned in text_of(browser.get("/cluster/figures"))
        page = text_of(browser.get(f"/brokers/show?address={secured.broker_addr}"))
        assert "The certificate of this broker ends in 1 day" in page
        assert "of this console" not in page


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ({"scrubState": "running", "scrubCheckedBytes": "3", "scrubTotalBytes": "9"}, "Scrub: running, 33 % of"),
        ({"scrubState": "resting", "scrubFindings": "0"}, "Scrub: resting; no damage"),
        (
            {"scrubState": "resting", "scrubFindings": "2", "scrubFinding_1": "commitlog/0, byte 7: record: <b>"},
            "The scrub has found 2 damaged ranges of the store commitlog/0, byte 7: record: <b>",
        ),
        ({}, ""),
    ],
)
def test_page_of_a_broker_shows_the_scrub(runtime: dict[str, str], said: str) -> None:
    shown = ShownBroker(BrokerRow("C", "b", 0, "127.0.0.1:1", runtime))
    templates = environment(now_ms)
    around = dict.fromkeys(("here", "path", "token", "user", "name_servers", "version"), "/")
    values = {"replicas": [], "runtime": [], "notices": [], "may_write": False, "certificate_end": lambda: None}
    told = text_of(templates.get_template("broker.html").render(broker=shown, **around, **values))
    assert said in told and ("scrub" in told.lower()) == bool(said)


def test_certificates_of_several_brokers_that_end_soon_are_one_warning() -> None:
    templates, day = environment(now_ms), 86_400_000
    brokers = [
        ShownBroker(BrokerRow("C", "b", number, "127.0.0.1:1", {"certificateEndTimestamp": str(now_ms() + left)}))
        for number, left in ((0, 20 * day), (1, 5 * day + day // 2), (2, -day))
    ]
    ending = soon_ending([*brokers, ShownBroker(BrokerRow("C", "b", 3, "", {}))], templates.filters["ending_days"])
    rates = dict.fromkeys(("put_rate", "get_rate", "put_today", "get_today", "dead_letters"), 0)
    page = templates.get_template("cluster_figures.html").render(clusters={}, total=4, bad=[], ending=ending, **rates)
    said = "The first certificate of 2 brokers has ended b 2 has ended; b 1 ends in 5 days. Replace the files"
    assert said in text_of(page)
