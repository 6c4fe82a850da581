"""The ids of messages: unique, and rising within one process."""

from __future__ import annotations

import os

from bolide.client.instance.unique_id import UniqueIds
from bolide.world.real import RealWorld


class Clock(RealWorld):
    """The real world with a clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_790_000_000_000
        self.wall_ms = lambda: self.now  # type: ignore[method-assign]  # the real one is a function, too


def test_ids_of_one_millisecond_differ_in_their_counter() -> None:
    ids = UniqueIds(Clock())
    made = [ids.next_id() for _ in range(65_536)]
    assert len(set(made)) == 65_536
    assert len({each[:-4] for each in made}) == 1
    assert {len(each) for each in made} == {32}


def test_the_time_of_an_id_follows_the_clock() -> None:
    clock = Clock()
    ids = UniqueIds(clock)
    first = ids.next_id()
    clock.now += 3
    second = ids.next_id()
    assert int(second[20:28], 16) - int(first[20:28], 16) == 3
    assert second[:20] == first[:20]


def test_a_forked_child_has_another_prefix() -> None:
    ids = UniqueIds(Clock())
    ours = ids.next_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, ids.next_id().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as text:
        theirs = text.read()
    os.waitpid(child, 0)
    assert theirs[:20] != ours[:20]
    assert ids.next_id()[:20] == ours[:20]
