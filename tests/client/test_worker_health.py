"""What the page for probes says of consumers and of the loop."""

from __future__ import annotations

import json
from typing import Any

from bolide.client.consuming.activity import Activity, activity_of
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.queue import MessageQueue
from bolide.client.worker_health import WorkerHealth
from bolide.monitor.http import Request


class Consumer:
    """Says that it did what the test wants."""

    group = "G"

    def __init__(self, activity: Activity) -> None:
        self.found = activity

    def activity(self) -> Activity:
        return self.found


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def liveness(clock: Clock, *consumers: Any) -> WorkerHealth:
    found = WorkerHealth(consumers, 10.0, 60.0, clock)
    found.started = True
    found.look()
    return found


def looked(found: WorkerHealth, clock: Clock, seconds: float) -> dict[str, Any]:
    """The report once that many seconds have passed on a loop that is in time."""
    clock.now += seconds
    found.look()
    return found.report()


def test_consumer_at_work_is_alive() -> None:
    clock, consumer = Clock(), Consumer(Activity(4, False, 0.5, 70.0))
    found = liveness(clock, consumer)
    report = looked(found, clock, 1000.0)
    assert report["alive"] and report["reasons"] == []
    assert report["consumers"] == {"G": {"queues": 4, "paused": False, "last_pull_s": 0.5, "last_listener_s": 70.0}}
    consumer.found = Activity(4, False, 70.0, 0.5)
    assert looked(found, clock, 1000.0)["alive"]


def test_consumer_without_a_sign_of_work_is_not() -> None:
    clock, consumer = Clock(), Consumer(Activity(4, False, 59.0, None))
    found = liveness(clock, consumer)
    assert looked(found, clock, 59.0)["alive"]
    consumer.found = Activity(4, False, 61.0, 90.0)
    (reason,) = looked(found, clock, 2.0)["reasons"]
    assert reason == "consumer G has neither pulled nor ended a listener call for 61 s"
    consumer.found = Activity(4, False, None, None)  # and never did
    assert not looked(found, clock, 1.0)["alive"]


def test_paused_consumer_is_alive_and_begins_anew() -> None:
    clock, consumer = Clock(), Consumer(Activity(4, True, 500.0, 500.0))
    found = liveness(clock, consumer)
    assert looked(found, clock, 1000.0)["alive"]
    consumer.found = Activity(4, False, 1059.0, 1059.0)  # it goes on
    assert looked(found, clock, 59.0)["alive"]
    assert not looked(found, clock, 2.0)["alive"]


def test_late_loop_is_not_alive() -> None:
    clock = Clock()
    found = liveness(clock, Consumer(Activity(1, False, 0.0, None)))
    clock.now += 10.9
    assert found.report()["alive"]
    clock.now += 0.2
    report = found.report()
    assert report["reasons"] == ["the event loop is 10.1 s late: something blocks it"]
    assert report["consumers"]["G"]["last_pull_s"] == 11.1


async def test_pages_have_the_status_of_the_report() -> None:
    clock = Clock()
    found = WorkerHealth([], 10.0, 60.0, clock)
    request = Request("GET", "/healthz")
    assert [(await page(request)).status for page in (found.alive, found.ready)] == [200, 503]
    found.started = True
    clock.now += 20
    answers = [await page(request) for page in (found.alive, found.ready)]
    assert [answer.status for answer in answers] == [503, 200]
    assert json.loads(answers[0].body)["loop_late_s"] == 19.0


def test_activity_leaves_retry_queues_out() -> None:
    main, retry = ProcessQueue(MessageQueue("T", "b", 0)), ProcessQueue(MessageQueue("%RETRY%G", "b", 0))
    main.last_pull, retry.last_pull = 40.0, 99.0
    found = activity_of([main, retry], False, 70.0, 100.0)
    assert found == Activity(1, False, 60.0, 30.0)
    assert found.idle == 30.0
    alone = activity_of([retry], False, 0.0, 100.0)
    assert alone == Activity(0, True, None, None)
    assert alone.idle is None
