"""What the page for probes says of consumers and of the loop."""

from __future__ import annotations

import json
from typing import Any

from bolide.client.consuming.activity import Activity, activity_of
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.queue import MessageQueue
from bolide.client.worker_health import WorkerHealth
from bolide.errors import BolideError, ConnectionLost
from bolide.monitor.http import Request
from bolide.remoting import codes


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
    assert report["consumers"] == {
        "G": {"queues": 4, "paused": False, "last_pull_s": 0.5, "last_listener_s": 70.0, "refusal": None}
    }
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


def test_consumer_whose_pulls_are_all_rejected_is_not() -> None:
    clock, queues = Clock(), [ProcessQueue(MessageQueue("T", "b", number)) for number in range(2)]
    refusal = ResponseError("the group may not consume", codes.NO_PERMISSION)

    def pulled(ago: float, *errors: BolideError | None) -> Activity:
        """The activity `ago` seconds after the last pull of each queue has failed, or not."""
        for queue, error in zip(queues, errors, strict=True):
            queue.last_pull = clock.now - ago
            queue.refusal = queue.refusal if error else None
            if error is not None:
                queue.pull_failed(error)
        return activity_of(queues, False, 0.0, clock.now, next(filter(None, errors), None))

    consumer = Consumer(pulled(0.0, None, None))
    found = liveness(clock, consumer)
    for _ in range(6):
        clock.now += 10
        consumer.found = pulled(0.0, refusal, None)
        found.look()
    report = found.report()
    assert report["alive"] and report["consumers"]["G"]["refusal"] == "the group may not consume"
    for _ in range(6):
        clock.now += 10
        consumer.found = pulled(0.0, refusal, refusal)
        found.look()
    assert found.report()["alive"], "the second queue was rejected 50 s ago"
    clock.now += 11
    consumer.found = pulled(0.0, refusal, refusal)
    found.look()
    (reason,) = found.report()["reasons"]
    assert reason == (
        "consumer G has neither pulled nor ended a listener call for 61 s: brokers reject it: the group may not consume"
    )
    consumer.found = pulled(0.0, refusal, ConnectionLost("the broker is away"))
    found.look()
    assert found.report()["alive"], "a broker that is away rejects nothing"


def test_consumer_that_gets_no_queue_because_brokers_reject_it_is_not() -> None:
    clock = Clock()
    refused = activity_of([], True, 0.0, clock.now, ResponseError("no right", codes.NO_PERMISSION))
    assert refused == Activity(0, False, None, None, "no right")
    consumer = Consumer(activity_of([], True, 0.0, clock.now))
    found = liveness(clock, consumer)
    assert looked(found, clock, 1000.0)["alive"]
    consumer.found = refused
    assert looked(found, clock, 59.0)["alive"]
    assert not looked(found, clock, 2.0)["alive"]


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
