"""Who is let in, what every answer carries, and that nothing of others is taken for markup."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from bolide.client import Message
from bolide.console.app import HEADERS
from bolide.console.sessions import COOKIE, FAILURES, FAILURES_S, IDLE_S
from bolide.testing.broker import Broker
from bolide.transport.trusted_proxies import TrustedProxies
from proof.kit.waiting import wait_until
from tests.client.patient import Admin
from tests.console.browsing import NASTY, Browser, browsing, send, shown

ADMIN = '{"username":"admin","password":"admin-secret"}'
TOPIC = "orders"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker with three users: admin, one who may look at the cluster, and one who may change it."""
    with Broker(authentication_enabled=True, authorization_enabled=True, init_authentication_user=ADMIN) as broker:

        async def users() -> None:
            signed = {"access_key": "admin", "secret_key": "admin-secret"}
            async with Admin(broker.namesrv_addr, **signed) as admin:
                for name, actions in (("reader", ["Get", "List"]), ("writer", ["Get", "List", "Update", "Create"])):
                    await admin.create_user(name, f"{name}-secret")
                    for resource in ("Cluster:*", "Topic:*", "Group:*"):
                        await admin.put_policy(name, resource, actions)
                await admin.create_user("gone", "gone-secret")
                await admin.update_user("gone", user_status="disable")

        asyncio.run(users())
        yield broker


@pytest.fixture
def open_console(bolide_broker: Broker) -> Iterator[Browser]:
    bolide_broker.create_topic(TOPIC)
    with browsing(bolide_broker) as browser:
        yield browser


def log_in(browser: Browser, name: str, password: str, onward: str = "/") -> str:
    """The text of the page after it."""
    browser.get("/login")
    return browser.change("/login/enter", {"name": name, "password": password, "next": onward})


def test_every_answer_carries_the_headers(open_console: Browser) -> None:
    for path in ("/", "/nothing", "/static/console.css", "/topics/show?topic=nothing"):
        answer = open_console.client.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (path, name)
        assert answer.headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy and "frame-ancestors 'none'" in policy


def test_pages_need_nothing_that_the_policy_forbids(open_console: Browser) -> None:
    for path in ("/", "/topics", f"/topics/show?topic={TOPIC}", "/groups", "/messages", "/waiting", "/settings"):
        page = open_console.get(path)
        assert not re.search(r"<script(?! src=\"/static/)|\son\w+=|\sstyle=|<style|javascript:|https?://(?!127)", page)


def test_a_name_that_is_not_the_consoles_is_refused(open_console: Browser) -> None:
    for host, status in (("evil.example", 421), ("localhost:8090", 200), ("[::1]", 200), ("", 421)):
        assert open_console.client.get("/", headers={"host": host}).status_code == status, host


def test_a_form_needs_the_token_of_its_browser(open_console: Browser) -> None:
    fields = {"topic": "made", "queues": "1"}
    assert open_console.post("/topics/create", {**fields, "token": "0" * 64}).status_code == 403
    assert open_console.post("/topics/create", {**fields, "token": ""}).status_code == 403
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        data = {"token": open_console.token, **fields}
        answer = open_console.client.post("/topics/create", data=data, headers=headers)
        assert answer.status_code == 403 and "another site" in shown(answer)
    open_console.client.cookies.clear()
    assert open_console.post("/topics/create", fields).status_code == 403
    assert "made" not in open_console.get("/topics")


def test_a_form_is_bounded_and_nothing_else(open_console: Browser) -> None:
    open_console.get("/")
    post = open_console.client.post
    assert post("/topics/create", content=b"{}", headers={"content-type": "application/json"}).status_code == 415
    assert post("/topics/create", data={"topic": "x" * 1_100_000}).status_code == 413
    assert post("/topics/create", data={f"n{n}": "1" for n in range(501)}).status_code == 400
    assert open_console.client.get("/topics/create").status_code == 405


def test_foreign_text_is_escaped_on_every_page(bolide_broker: Broker) -> None:
    bolide_broker.create_topic(TOPIC, queues=1)
    nasty = Message(TOPIC, NASTY.encode(), tags="<b>tag", keys="<i>key", properties={"<u>name": NASTY})
    (result,) = send(bolide_broker, nasty, trace=True)
    send(bolide_broker, Message(TOPIC, b"x", delay_level=9, properties={"a": NASTY}))
    with browsing(bolide_broker) as browser:
        asked = quote(NASTY)
        for path, status in (
            (f"/messages?topic={TOPIC}", 200),
            (f"/messages?topic={TOPIC}&by=key&key={quote('<i>key')}", 200),
            (f"/messages/show?topic={TOPIC}&id={result.message_id}&view=text", 200),
            (f"/messages/show?topic={TOPIC}&id={result.message_id}&view=hex", 200),
            (f"/messages/show?topic={TOPIC}&id={asked}", 404),
            (f"/messages?topic={asked}", 404),
            (f"/messages/write?topic={asked}", 200),
            (f"/topics?q={asked}", 200),
            (f"/topics/show?topic={asked}", 404),
            (f"/groups?q={asked}", 200),
            (f"/groups/show?group={asked}", 404),
            (f"/groups/plan?group={asked}&topic={asked}", 404),
            (f"/dead-letters?q={asked}", 200),
            (f"/dead-letters/show?group={asked}", 404),
            ("/waiting?broker=broker-a&level=9", 200),
            (f"/settings?q={asked}&show=all", 200),
            (f"/settings?of={asked}", 404),
            (f"/brokers/show?address={asked}", 404),
            (f"/topics?page={asked}", 400),
        ):
            page = browser.get(path, status)
            for markup in ("<script>alert", "<b>tag", "<i>key", "<u>name"):
                assert markup not in page, (path, markup)
        shows = browser.get(f"/messages/show?topic={TOPIC}&id={result.message_id}&view=text")
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shows and "&lt;u&gt;name" in shows
        page = browser.change("/groups/create", {"group": "G" + "x" * 200}, back="/groups")
        assert "verdict bad" in page


def test_back_and_next_stay_here(open_console: Browser) -> None:
    for back in ("//evil.example/", "https://evil.example", "/\\evil.example", "javascript:alert(1)"):
        answer = open_console.post("/topics/create", {"topic": "no such name!"}, back)
        assert answer.status_code == 303, shown(answer)
        assert answer.headers["location"] == "/", back


def test_pages_require_a_login(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        answer = browser.client.get("/topics/show?topic=%25RETRY%25G", follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=%2Ftopics%2Fshow%3Ftopic%3D%2525RETRY%2525G"
        assert browser.client.get("/cluster/figures", follow_redirects=False).status_code == 303
        browser.get("/login")
        assert browser.post("/topics/create", {"topic": "made"}).status_code == 401
        for name, password in (("admin", "wrong"), ("nobody", "x"), ("gone", "gone-secret")):
            answer = browser.post("/login/enter", {"name": name, "password": password})
            assert answer.status_code == 403 and "the name or the password is wrong" in shown(answer)
        assert browser.client.get("/", follow_redirects=False).status_code == 303


def test_passwords_are_not_tried_for_long(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        browser.get("/login")
        for _ in range(FAILURES):
            data = {"token": browser.token, "name": "admin", "password": "wrong"}
            assert browser.client.post("/login/enter", data=data).status_code == 403
        data = {"token": browser.token, "name": "admin", "password": "admin-secret"}
        assert browser.client.post("/login/enter", data=data).status_code == 429
        browser.clock.now += 1_000
        assert "Cluster" in log_in(browser, "admin", "admin-secret")


def enters(browser: Browser, password: str, forwarded: str) -> int:
    """The status of a login of the administrator that says to be forwarded."""
    data = {"token": browser.token, "name": "admin", "password": password}
    headers = {"X-Forwarded-For": forwarded}
    return browser.client.post("/login/enter", data=data, headers=headers, follow_redirects=False).status_code


def test_wrong_passwords_behind_a_trusted_proxy_block_their_browser_only(guarded: Broker) -> None:
    with browsing(guarded, "10.0.0.1", trusted_proxies=TrustedProxies("10.0.0.0/8")) as browser:
        browser.get("/login")
        for number in range(FAILURES):
            assert enters(browser, "wrong", f"198.51.100.{number}, 203.0.113.9, 10.0.0.2") == 403
        assert enters(browser, "admin-secret", "198.51.100.77, 203.0.113.9") == 429
        assert enters(browser, "admin-secret", "203.0.113.9, 198.51.100.77") == 303


def test_addresses_that_a_browser_makes_up_do_not_allow_more_passwords(guarded: Broker) -> None:
    with browsing(guarded, "203.0.113.9", trusted_proxies=TrustedProxies("10.0.0.0/8")) as browser:
        browser.get("/login")
        for number in range(FAILURES):
            assert enters(browser, "wrong", f"198.51.100.{number}") == 403
        assert enters(browser, "admin-secret", "198.51.100.77") == 429


def test_passwords_that_come_together_are_tried_no_more_often(guarded: Broker) -> None:
    with browsing(guarded) as browser, ThreadPoolExecutor(3 * FAILURES) as pool:
        browser.get("/login")
        data = {"token": browser.token, "name": "admin", "password": "wrong"}

        def attempt() -> int:
            return browser.client.post("/login/enter", data=data, follow_redirects=False).status_code

        def all_answered() -> bool:
            browser.clock.now += FAILURES_S
            tries = [pool.submit(attempt) for _ in range(3 * FAILURES)]
            statuses = Counter(each.result() for each in tries)
            # A try that a busy broker does not answer in time is taken back (303), so another one takes its place.
            unanswered = statuses.pop(303, 0)
            assert statuses.keys() <= {403, 429} and statuses[403] <= FAILURES, statuses
            return not unanswered and statuses == {403: FAILURES, 429: 2 * FAILURES}

        wait_until(all_answered, "a round of tries that the broker answers")
        right = {**data, "password": "admin-secret"}
        assert browser.client.post("/login/enter", data=right).status_code == 429, "no session, and no try left"


def test_an_administrator_changes_things_until_the_session_ends(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        browser.get("/login")
        before = browser.client.cookies[COOKIE]
        page = log_in(browser, "admin", "admin-secret", "/topics?kind=normal")
        assert "<h1>Topics</h1>" in page and "Create a topic" in page
        cookie = browser.client.cookies[COOKIE]
        assert cookie != before
        assert "topic made is created" in browser.change("/topics/create", {"topic": "made", "queues": "1"})
        page = browser.get("/access")
        assert "admin-secret" not in page and "reader" in page
        browser.clock.now += IDLE_S + 1
        assert browser.client.get("/", follow_redirects=False).status_code == 303
        log_in(browser, "admin", "admin-secret")
        browser.change("/login/leave", {})
        browser.client.cookies.set(COOKIE, cookie)
        assert browser.client.get("/", follow_redirects=False).status_code == 303


def test_reader_sees_no_form_and_cannot_change(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        page = log_in(browser, "reader", "reader-secret")
        assert "reads only" in page
        for path in ("/", "/topics", "/groups", "/access", "/settings?show=all", "/waiting", "/messages/write"):
            page = browser.get(path)
            assert re.findall(r'method="post" action="([^"]*)"', page) == ["/login/leave"], path
        answer = browser.post("/topics/create", {"topic": "never"})
        assert answer.status_code == 403 and "may view this cluster" in shown(answer)


def test_a_policy_for_the_cluster_lets_a_user_write(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        assert "reads only" not in log_in(browser, "writer", "writer-secret")
        assert "group by-writer is created" in browser.change("/groups/create", {"group": "by-writer"})
        # The broker decides, not the console: the policy has no Delete.
        page = browser.change("/groups/delete", {"group": "by-writer", "typed": "by-writer"}, back="/groups")
        assert "has no permission" in page


def test_users_and_policies_are_made_and_deleted(guarded: Broker) -> None:
    with browsing(guarded) as browser:
        log_in(browser, "admin", "admin-secret")
        fields = {"name": "eve", "password": "eve-secret", "type": "Normal"}
        assert "user eve is created" in browser.change("/access/create-user", fields)
        policy = {
            "name": "eve",
            "resource": "Topic:o*",
            "action": ["Pub", "Sub"],
            "decision": "Allow",
            "sources": "::1",
        }
        assert "Pub, Sub with Topic:o* is allowed to eve" in browser.change("/access/put-policy", policy)
        assert "Topic:o*" in browser.get("/access")
        assert "deleted" in browser.change("/access/delete-policy", {"name": "eve", "resource": "Topic:o*"})
        changed = browser.change("/access/change-user", {"name": "eve", "status": "disable"})
        assert "user eve is changed" in changed and "disabled" in changed
        assert browser.post("/access/delete-user", {"name": "eve", "typed": "ev"}).status_code == 400
        assert browser.post("/access/delete-user", {"name": "admin", "typed": "admin"}).status_code == 409
        assert "user eve is deleted" in browser.change("/access/delete-user", {"name": "eve", "typed": "eve"})


def test_the_cookie_is_not_for_scripts_and_under_tls_not_for_plain_connections(bolide_broker: Broker) -> None:
    with browsing(bolide_broker) as browser:
        cookie = browser.client.get("/").headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=lax" in cookie and "secure" not in cookie
        browser.client.cookies.clear()
        answer = browser.client.get("https://127.0.0.1/")
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "strict-transport-security" in answer.headers


def test_the_cookie_is_secure_behind_a_trusted_proxy_that_ends_tls(bolide_broker: Broker) -> None:
    for proxies, secure in (("10.0.0.1", True), ("10.0.0.2", False)):
        with browsing(bolide_broker, "10.0.0.1", trusted_proxies=TrustedProxies(proxies)) as browser:
            answer = browser.client.get("/topics", headers={"X-Forwarded-Proto": "https"})
            assert ("Secure" in answer.headers["set-cookie"]) is secure
            assert ("strict-transport-security" in answer.headers) is secure


def test_a_cluster_that_is_gone_is_told() -> None:
    broker = Broker()
    with broker:
        with browsing(broker) as browser:
            browser.get("/")
            broker.stop()
            page = browser.get("/topics", 503)
            assert "No answer" in page
