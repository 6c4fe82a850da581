"""Rows of what comes due together: a delay level, and timer messages of one second.

All are stored before the first is due. Of a delay level each message is due so long after its own arrival; the broker
is stopped (SIGSTOP) until the last of them is, so that all are due when it runs again. What is delivered is pulled from
the topic's queues at once, with held pulls, and counts when it has arrived there.
"""

import time

from bench.loads.generator import Load, Measurement, Shape, run_load
from bench.loads.subject import Subject
from bench.servers.machine import Watch
from bench.servers.stopping import Failed

_SEND_SHAPE = Shape(8, 32)
_LEVELS = {1: 1.0, 2: 5.0, 3: 10.0, 4: 30.0, 5: 60.0}
"""Delay levels of both brokers, in seconds."""
_LEAST_SENDS_A_SECOND = 13_000
_TRIES = 3
_MOST_SECONDS = 300.0


def delayed(subject: Subject) -> dict[str, float]:
    """Messages of one level, due together; the rate counts from then to the arrival of the last."""
    for level in range(subject.scale.level, max(_LEVELS) + 1):
        topic = subject.new_name("delayed")
        watch = Watch(subject.server.pid)
        began = time.monotonic()
        sent = _send(subject, topic, {"delay": level})
        if time.monotonic() - began < _LEVELS[level] - 0.2:
            break
    else:
        raise Failed(f"{subject.name} took {sent.seconds:.1f} s for the delayed messages, and the first came meanwhile")
    subject.server.pause()
    try:
        time.sleep(_LEVELS[level] + 0.2)
    finally:
        subject.server.resume()
    return _delivered(subject, topic, int(time.time() * 1000), sent, watch)


def timed(subject: Subject) -> dict[str, float]:
    """Timer messages of one second; the rate counts from it to the arrival of the last."""
    lead = subject.scale.lead + subject.scale.count / _LEAST_SENDS_A_SECOND
    for _ in range(_TRIES):
        topic = subject.new_name("timed")
        watch = Watch(subject.server.pid)
        due = int(time.time() + lead)
        sent = _send(subject, topic, {"deliver-at": due * 1000})
        left = due - time.time()
        if left > 0.3:
            time.sleep(left - 0.3)
            return _delivered(subject, topic, due * 1000, sent, watch)
        lead *= 2  # too slow: the first were due before the last was sent
    raise Failed(f"{subject.name} took {sent.seconds:.1f} s for the timer messages, and they were due meanwhile")


def _send(subject: Subject, topic: str, options: dict[str, object]) -> Measurement:
    # What is in flight at the end is stored, too: a few messages are sent one by one.
    load = Load(_SEND_SHAPE if subject.scale.count > 1000 else Shape(1, 1), topic=topic, options=options)
    sent = run_load(subject.server.port, load, _MOST_SECONDS, count=subject.scale.count)
    if sent.answered < subject.scale.count:
        raise Failed(f"{subject.name} answered {sent.answered:,} sends in {_MOST_SECONDS:.0f} s")
    return sent


def _delivered(subject: Subject, topic: str, due_ms: int, sent: Measurement, watch: Watch) -> dict[str, float]:
    load = Load(Shape(1, 1), "follow", topic=topic, options={"due": due_ms, "pull": 1024})
    seen = run_load(subject.server.port, load, _MOST_SECONDS, count=sent.all_count)
    if seen.all_count < sent.all_count:
        raise Failed(f"{subject.name} delivered {seen.all_count:,} of {sent.all_count:,} in {_MOST_SECONDS:.0f} s")
    return {
        "rate": seen.all_count / max(seen.last_ms, 1) * 1000,
        "first_ms": seen.first_ms,
        "half_ms": seen.half_ms,
        "last_ms": seen.last_ms,
        "count": seen.all_count,
        "send_rate": sent.rate,
        **watch.end(seen.all_count, sent.cpu_seconds + seen.cpu_seconds),
    }
