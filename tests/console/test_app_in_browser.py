"""Every page in a real browser: nothing is refused or missing, forms work, keys work, all of it fits a phone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bolide.client import Message
from bolide.layout.names import DLQ_PREFIX
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Admin, PushConsumer
from tests.console.browsing import NASTY, send
from tests.console.chromium import DESKTOP, PHONE, Window, serving, window
from tests.transport.certificates import Certificate

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

ADMIN = '{"username":"admin","password":"admin-secret"}'


@dataclass
class Shop:
    """A cluster with something to look at: `message` is the id of one that was traced."""

    broker: Broker
    message: str


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """Orders, a group that is behind, dead letters, delays, and a text that wants to be markup."""
    with Broker() as broker:
        for topic, queues in (("orders", 4), ("payments", 2), ("shipments", 8), (DLQ_PREFIX + "billing", 1)):
            broker.create_topic(topic, queues=queues)
        order = b'{"order": 4711, "customer": "Ada", "items": [{"sku": "coffee", "count": 2}], "total": 12.5}'
        send(broker, *(Message("orders", order, tags="new", keys=f"order-{n}") for n in range(40)))
        send(broker, *(Message("payments", b"paid %d" % n, keys=f"order-{n}") for n in range(12)))
        send(broker, Message("orders", NASTY.encode(), tags="<b>", keys="<i>", properties={"<u>": NASTY}))
        send(broker, *(Message(DLQ_PREFIX + "billing", b"no such account %d" % n, keys=f"k{n}") for n in range(3)))
        send(broker, *(Message("orders", b"later", delay_level=level) for level in (16, 17, 17, 18)))
        properties = {"origin": "shop", "currency": "EUR"}
        last = Message("orders", order, tags="new", keys="order-41", properties=properties)
        (result,) = send(broker, last, trace=True)

        async def groups() -> None:
            seen: list[str] = []
            consumer = PushConsumer("billing", broker.namesrv_addr, start_from="first", trace=True)
            consumer.subscribe("orders", "new", lambda message: seen.append(message.message_id))
            async with consumer:
                await until(lambda: result.message_id in seen, "the traced message")
            async with Admin(broker.namesrv_addr) as admin:
                await admin.create_group("reports")
                for queue in (await admin.topic_route("orders")).read_queues():
                    await admin.set_group_offset("reports", queue, 2)

        asyncio.run(groups())
        yield Shop(broker, result.message_id)


@pytest.fixture(scope="module")
def at_shop(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    with serving(shop.broker.namesrv_addr) as root, window(root, tmp_path_factory.mktemp("chromium")) as made:
        yield made


def pages(shop: Shop) -> dict[str, tuple[str, str]]:
    """Name, address, and what is seen there."""
    return {
        "cluster": ("/", "The broker serves"),
        "broker": (f"/brokers/show?address={shop.broker.broker_addr}", "Runtime figures"),
        "topics": ("/topics", "shipments"),
        "topic": ("/topics/show?topic=orders", "reports by"),
        "groups": ("/groups?sort=lag", "reports"),
        "group": ("/groups/show?group=reports", "no member is connected"),
        "reset": ("/groups/plan?group=reports&topic=orders&to=last", "messages are skipped"),
        "messages": ("/messages?topic=orders", "order-39"),
        "message": (f"/messages/show?topic=orders&id={shop.message}", "consume by billing"),
        "send": ("/messages/write?topic=orders", "Deliver in seconds"),
        "dead-letters": ("/dead-letters", "billing"),
        "dead-letters-of": ("/dead-letters/show?group=billing", "no such account"),
        "waiting": ("/waiting?broker=broker-a&level=17", "Next of 1h"),
        "stores": ("/stores", "Oldest message"),
        "settings": ("/settings", "flushDiskType"),
        "access": ("/access", "Access control is off"),
        "error": ("/topics/show?topic=nothing", "there is no topic nothing"),
    }


@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", DESKTOP), ("light", PHONE), ("dark", PHONE)])
def test_every_page_is_whole_and_fits(shop: Shop, at_shop: Window, scheme: str, size: tuple[int, int]) -> None:
    at_shop.size(size, phone=size == PHONE).scheme(scheme)
    for name, (path, seen) in pages(shop).items():
        at_shop.open(path).see(seen).fits()
        at_shop.picture(f"{name}-{scheme}-{'phone' if size == PHONE else 'desktop'}")
        at_shop.unfold().fits()
        if size == DESKTOP:
            at_shop.shows_tables()
    complaints = [text for text in at_shop.complaints() if "404" not in text]
    assert complaints == []


def test_figures_move(shop: Shop, at_shop: Window) -> None:
    at_shop.size(DESKTOP).open("/")
    before = at_shop.one(".numbers div:nth-child(3) b").text
    send(shop.broker, Message("payments", b"one more"))
    at_shop.wait(f"document.querySelector('.numbers div:nth-child(3) b').textContent !== {before!r}", "another figure")


def test_keys_and_the_switch_of_colours(at_shop: Window) -> None:
    at_shop.size(DESKTOP).scheme("light").open("/")
    at_shop.keys("gt").see("Create a topic").ready()
    at_shop.keys("/").wait("document.activeElement.type === 'search'", "the search")
    at_shop.one("input[type=search]").send_keys("pay\n")
    at_shop.wait("location.search.includes('q=pay')", "the result")
    at_shop.ready().keys("?").wait("document.getElementById('keys').open", "the list of keys")
    at_shop.open("/").keys("l").wait("document.documentElement.dataset.theme === 'dark'", "dark")
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(17, 21, 27)'"
    at_shop.wait(dark, "dark colours")
    at_shop.open("/topics").wait(dark, "dark colours on the next page")
    at_shop.click("[data-do=theme]").wait("document.documentElement.dataset.theme === 'light'", "light")


def test_forms_change_the_cluster(at_shop: Window) -> None:
    at_shop.size(DESKTOP).open("/topics").unfold()
    at_shop.fill("form[action='/topics/create'] [name=topic]", "by-hand").click("form[action='/topics/create'] button")
    at_shop.see("topic by-hand is created on broker-a").ready()
    at_shop.open("/messages/write?topic=by-hand").fill("textarea[name=body]", "hello from a browser")
    at_shop.click("form[action='/messages/send'] button").see("hello from a browser", "sent to by-hand@broker-a")
    at_shop.open("/groups/plan?group=reports&topic=orders&to=first").click(".danger").see("are reset: 4 queues").ready()
    at_shop.open("/dead-letters/show?group=billing").click("[data-tick-all]").fill("[name=to]", "by-hand")
    at_shop.click("form[action='/dead-letters/redrive'] .main").see("3 of 3 dead letters are resent").ready()
    at_shop.open("/topics/show?topic=by-hand").unfold().fill("[name=typed]", "by-hand")
    at_shop.click("form[action='/topics/delete'] .danger").see("topic by-hand is deleted")


def test_markup_in_messages_is_text(at_shop: Window) -> None:
    at_shop.size(DESKTOP).open("/messages?topic=orders&by=key&key=%3Ci%3E").see("<script>alert(1)</script>")
    at_shop.click("td a").see("<u>").unfold()
    assert at_shop.driver.execute_script("return document.querySelectorAll('main u, main b, main i').length") == 0
    assert at_shop.complaints() == []


def test_a_certificate_that_ends_soon_is_seen(tmp_path: Path) -> None:
    own = Certificate(tmp_path)
    with (
        Broker(tls_cert_path=own.cert, tls_key_path=own.key) as secured,
        serving(secured.namesrv_addr) as root,
        window(root, tmp_path / "chromium") as browser,
    ):
        for size in (DESKTOP, PHONE):
            browser.size(size, phone=size == PHONE)
            for name, path in (("map", "/"), ("broker", f"/brokers/show?address={secured.broker_addr}")):
                browser.open(path).see("ends in 1 day", "Replace its files").fits()
                browser.picture(f"certificate-{name}-{'phone' if size == PHONE else 'desktop'}")


def test_logging_in_and_out(tmp_path: Path) -> None:
    with Broker(authentication_enabled=True, authorization_enabled=True, init_authentication_user=ADMIN) as broker:
        with serving(broker.namesrv_addr) as root, window(root, tmp_path) as made:
            made.scheme("light").open("/topics").see("Log in as a user").fits().picture("login-light-desktop")
            made.fill("[name=name]", "admin").fill("[name=password]", "wrong").click("button.main")
            made.see("the name or the password is wrong").ready()
            made.fill("[name=password]", "admin-secret").click("button.main").see("Create a topic").ready()
            made.open("/access").unfold().fill("form[action='/access/create-user'] [name=name]", "alice")
            made.fill("form[action='/access/create-user'] [name=password]", "alice-secret")
            made.click("form[action='/access/create-user'] button").see("user alice is created").ready()
            made.picture("access-users-light-desktop").size(PHONE, phone=True).open("/access").unfold().fits()
            made.size(DESKTOP).open("/").click("form[action='/login/leave'] button").see("Log in as a user")
            assert [text for text in made.complaints() if "403" not in text] == []
