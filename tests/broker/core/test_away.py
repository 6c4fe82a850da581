"""Messages on their way to other sets: what is sent, what is tried again and when, and how far a queue is done."""

from __future__ import annotations

from bolide.broker.core.away import BYTES, LONGEST_PAUSE_MS, MOST, PAUSE_MS, Journeys, abroad
from bolide.broker.core.effects import Effects
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import HALF_TOPIC, TIMER_TOPIC
from bolide.layout.sysflag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_PREPARED
from tests.broker.parts import NOW, message, text


class Away:
    """One queue, and what its effects say."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.arrived: list[int] = []
        self.journeys = Journeys(self.effects, self, self.arrived.append)

    def begin(self, *marks: int, body: bytes = b"x") -> None:
        for mark in marks:
            self.journeys.begin(message("T", 0, body, ""), mark)

    def tell(self, *errors: str, now: int = NOW) -> None:
        """Report what was sent since the last call, in its order."""
        for (_, then), error in zip(self.effects.take().aways, errors, strict=True):
            then(error, now)


def test_a_queue_is_done_up_to_the_first_that_has_not_arrived() -> None:
    away = Away()
    away.begin(5, 6, 7)
    assert away.journeys.first(8) == 5
    away.tell("gone", "", "")
    assert away.journeys.first(8) == 5 and away.arrived == [6, 7]
    assert away.journeys.count == 3, "what arrived waits for what is before it"
    away.journeys.go_on(NOW + PAUSE_MS)
    away.tell("", now=NOW + PAUSE_MS)
    assert away.journeys.first(8) == 8 and away.journeys.count == 0
    assert away.arrived == [6, 7, 5]


def test_failed_send_is_retried_after_a_growing_pause() -> None:
    away = Away()
    away.begin(0)
    now, pauses = NOW, []
    for _ in range(9):
        away.tell("refused", now=now)
        at = away.journeys.next_at(now + 10 * LONGEST_PAUSE_MS)
        away.journeys.go_on(at - 1)
        assert not away.effects.aways, "no earlier"
        pauses.append(at - now)
        away.journeys.go_on(at)
        now = at
    assert pauses == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]
    assert away.journeys.failures == 9


def test_only_so_much_is_under_way() -> None:
    away = Away()
    away.begin(*range(MOST))
    assert away.journeys.full
    away.tell(*[""] * MOST)
    assert not away.journeys.full
    away.begin(0, body=b"x" * BYTES)
    assert away.journeys.full
    away.tell("")
    assert not away.journeys.full


def test_a_full_queue_rejects_further_messages() -> None:
    away = Away()
    assert all(away.journeys.begin(message("T", 0, b"x", ""), mark) for mark in range(MOST))
    assert not away.journeys.begin(message("T", 0, b"x", ""), MOST)
    assert away.journeys.count == MOST == len(away.effects.take().aways)


def test_late_result_is_ignored_after_reset() -> None:
    away = Away()
    away.begin(1)
    late = away.effects.take().aways[0][1]
    away.journeys.forget()
    away.begin(2)
    late("", NOW)
    assert away.arrived == [] and away.journeys.first(9) == 2


def test_whoever_waits_for_a_report_is_woken() -> None:
    away = Away()
    away.begin(1)
    away.tell("")
    assert away.effects.wakes == [away]


def of(topic: str, sys_flag: int = 0, **properties: str) -> BrokerMessage:
    made = message(topic, 3, b"body", text(**properties))
    made.flag, made.reconsume_times, made.sys_flag = 9, 2, sys_flag
    return made


def test_a_delay_that_has_acted_does_not_act_again() -> None:
    made = of("T", BORN_HOST_V6 | STORE_HOST_V6 | 1, DELAY="3", TIMER_DELAY_MS="5", REAL_TOPIC="T", KEYS="k")
    sent = abroad(made)
    assert sent.properties.pairs() == {"REAL_TOPIC": "T", "KEYS": "k", "WAIT": "false"}
    assert (sent.topic, sent.body, sent.flag, sent.reconsume_times, sent.sys_flag) == ("T", b"body", 9, 2, 1)
    assert sent.born_timestamp == made.born_timestamp
    assert made.properties.get("DELAY") == "3", "the message is left as it is"
    timer = abroad(of("T", TIMER_DELIVER_MS="7", TIMER_OUT_MS="7"))
    assert timer.properties.pairs() == {"TIMER_DELIVER_MS": "7", "TIMER_OUT_MS": "7", "WAIT": "false"}


def test_a_half_message_is_one_again() -> None:
    half = of(HALF_TOPIC, REAL_TOPIC="T", REAL_QID="2", PGROUP="g", DELAY="3", TRAN_PREPARED_QUEUE_OFFSET="8")
    sent = abroad(half)
    assert sent.topic == "T" and sent.sys_flag == TRANSACTION_PREPARED
    assert sent.properties.pairs() == {
        "REAL_TOPIC": "T", "PGROUP": "g", "DELAY": "3", "TRAN_MSG": "true", "WAIT": "false",
    }  # fmt: skip


def test_message_beyond_the_wheel_waits_at_the_other_set() -> None:
    rolled = of(TIMER_TOPIC, REAL_TOPIC="T", REAL_QID="2", TIMER_DELAY_SEC="9", TIMER_OUT_MS="77", KEYS="k")
    sent = abroad(rolled)
    assert sent.topic == "T"
    assert sent.properties.pairs() == {"KEYS": "k", "WAIT": "false", "TIMER_DELIVER_MS": "77"}
    assert isinstance(sent.properties, MessageProperties) and "TIMER_DELIVER_MS\x0177\x02" in sent.properties.text
