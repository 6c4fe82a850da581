"""The programs of the how-to pages do what their pages say."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from starlette.testclient import TestClient

from bolide.admin.blocking import Admin
from bolide.client import DEAD_LETTER, Message, ReceivedMessage, RetryLater, TopicNotFound
from bolide.client.blocking import Producer, PushConsumer
from bolide.testing.broker import Broker
from proof.kit.waiting import wait_until
from tests.admin.buried import bury_now
from tests.cli.running import invoke
from tests.page_programs import program, run

DOCS = Path(__file__).parent.parent / "docs"


def test_a_web_application_sends_and_consumes_while_it_lives(bolide_broker: Broker) -> None:
    application = program("web_application").application(bolide_broker.namesrv_addr)
    with TestClient(application) as client:
        answer = client.post("/orders/order-1", content=b"one coffee")
        assert (answer.status_code, len(answer.json()["message"])) == (202, 32)
        refused = client.post("/orders/order-2")
        assert refused.status_code == 400 and "is empty" in refused.json()["error"]
        wait_until(lambda: client.get("/orders").json() == ["order-1"])


def test_an_application_without_asyncio_shares_one_producer(bolide_broker: Broker) -> None:
    module = program("wsgi_application")

    def post(body: bytes) -> tuple[str, bytes]:
        environ: dict[str, Any] = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        setup_testing_defaults(environ)
        environ["namesrv"] = bolide_broker.namesrv_addr
        statuses: list[str] = []
        told = module.application(environ, lambda status, headers: statuses.append(status))
        return statuses[0], b"".join(told)

    status, message_id = post(b"one coffee")
    assert (status, len(message_id)) == ("202 Accepted", 32)
    status, told = post(b"")
    assert status == "400 Bad Request" and b"is empty" in told
    assert module.producer.cache_info().currsize == 1
    module.producer(bolide_broker.namesrv_addr).close()


def test_dead_letters_are_sent_to_their_topic_again(bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    bolide_broker.create_topic("Orders", queues=1)
    given: list[tuple[bytes, int, str | None]] = []

    def refuse(message: ReceivedMessage) -> None:
        given.append((message.body, message.reconsume_times, message.get_property("table")))
        if len(given) <= 2:
            raise RetryLater(DEAD_LETTER)

    consumer = PushConsumer("kitchen", bolide_broker.namesrv_addr, start_from="first")
    consumer.subscribe("Orders", "*", refuse)
    with Producer("orders", bolide_broker.namesrv_addr) as producer, consumer:
        for body in (b"one coffee", b"one tea"):
            producer.send(Message("Orders", body, tags="hot", keys="order-1", properties={"table": "4"}))
        wait_until(lambda: len(given) == 2)
        wait_until(lambda: dead_letters(bolide_broker) == 2)
        run("redrive_dead_letters", bolide_broker)
        wait_until(lambda: len(given) == 4)
        run("redrive_dead_letters", bolide_broker)
    assert sorted(given[2:]) == [(b"one coffee", 0, "4"), (b"one tea", 0, "4")]
    assert sorted(capsys.readouterr().out.splitlines()) == ["Orders b'one coffee'", "Orders b'one tea'"]


def test_dead_letters_go_back_from_a_shell(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("Orders", queues=1)
    bury_now(bolide_broker, "kitchen", *(Message("Orders", b"one coffee", keys=f"order-{n}") for n in range(3)))
    page = (DOCS / "howto" / "redrive.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    bolide (dead-letter [^|\n]+)$", page, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["list", "resend", "resend"]
    for line in lines:
        done = invoke(*shlex.split(line), BOLIDE_NAMESRV_ADDR=bolide_broker.namesrv_addr)
        assert done.exit_code == 0, done.output
    with Admin(bolide_broker.namesrv_addr) as admin:
        assert sum(each.end_offset for each in admin.topic_stats("Orders")) == 6


def dead_letters(broker: Broker) -> int:
    """How many the group has."""
    with Admin(broker.namesrv_addr) as admin:
        try:
            return sum(each.end_offset for each in admin.topic_stats("%DLQ%kitchen"))
        except TopicNotFound:
            return 0


def test_a_task_takes_what_has_come_since_the_last_run(
    bolide_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    bolide_broker.create_topic("Invoices", queues=2)
    run("batch_tasks", bolide_broker)
    assert capsys.readouterr().out == "2 published\n2 taken\n0 taken\n"
