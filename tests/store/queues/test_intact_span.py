"""A piece of a queue that was compared counts until bytes of the log leave the memory."""

from __future__ import annotations

from bolide.store.queues.intact_span import IntactSpan


def test_pieces_that_continue_each_other_are_one() -> None:
    span = IntactSpan()
    assert not span.covers(0, 0, 0)
    span.extend(0, 32, 0)
    span.extend(32, 64, 0)
    assert span.covers(10, 64, 0)
    assert not span.covers(10, 65, 0)


def test_a_piece_elsewhere_replaces_the_known_one() -> None:
    span = IntactSpan()
    span.extend(0, 32, 0)
    span.extend(40, 50, 0)
    assert span.covers(40, 50, 0)
    assert not span.covers(0, 32, 0)
    span.extend(30, 45, 0)
    assert not span.covers(30, 50, 0)


def test_an_eviction_ends_what_is_known() -> None:
    span = IntactSpan()
    span.extend(0, 32, 0)
    assert not span.covers(0, 32, 1)
    span.extend(32, 64, 1)
    assert not span.covers(0, 64, 1)
    assert span.covers(32, 64, 1)
