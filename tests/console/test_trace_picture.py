"""The picture of a trace."""

from __future__ import annotations

from bolide.admin.tracing import steps_of
from bolide.client.tracing.trace import CONSUME_BEGINS, CONSUME_ENDS, FAILED, SENT, TraceBean, TraceContext
from bolide.console.trace_picture import LEAST, MOST_ROWS, Picture, picture

BEAN = (TraceBean("ID", "orders"),)


def step(kind: str, at: int, **more: object) -> TraceContext:
    return TraceContext(kind, at, "G", BEAN, **more)  # type: ignore[arg-type]  # a test's own keywords


def drawn_of(recorded: list[TraceContext]) -> Picture | None:
    return picture(steps_of(recorded))


def test_a_send_and_two_calls_of_a_listener() -> None:
    drawn = drawn_of(
        [
            step(SENT, 1_000, cost_ms=10),
            step(CONSUME_BEGINS, 1_100, request_id="a"),
            step(CONSUME_ENDS, 1_200, request_id="a", cost_ms=100, success=False, context_code=FAILED),
            step(CONSUME_BEGINS, 1_300, request_id="b"),
        ]
    )
    assert drawn is not None
    told = [(bar.label, bar.told, bar.kind, bar.begin, bar.cost) for bar in drawn.bars]
    assert told == [
        ("send by G", "stored", "sent", 1_000, 10),
        ("consume by G", "failed", "bad", 1_100, 100),
        ("consume by G", "started, end not reported", "open", 1_300, 0),
    ]
    assert all(bar.x > 0 and bar.x + bar.width <= 1_000 and bar.width >= LEAST for bar in drawn.bars)
    assert (drawn.begin, drawn.end, drawn.left_out) == (1_000, 1_300, 0)


def test_no_step_and_too_many() -> None:
    assert drawn_of([]) is None
    assert drawn_of([step(CONSUME_ENDS, 0, request_id="a")]) is None  # of a client of 4.x, without a time
    drawn = drawn_of([step(SENT, 1 + number) for number in range(MOST_ROWS + 3)])
    assert drawn is not None and (len(drawn.bars), drawn.left_out) == (MOST_ROWS, 3)


def test_an_end_without_its_start_is_drawn() -> None:
    drawn = drawn_of([step(CONSUME_ENDS, 1_200, request_id="a", cost_ms=100)])
    assert drawn is not None
    assert [(bar.told, bar.kind, bar.begin, bar.cost) for bar in drawn.bars] == [
        ("consumed, start not reported", "consumed", 1_100, 100)
    ]
