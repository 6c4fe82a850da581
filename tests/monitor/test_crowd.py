"""The oldest connection that waits for its peer closes, and no other."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bolide.monitor.crowd import make_room


@dataclass
class Connection:
    number: int
    waits: bool = True
    closing: bool = False

    def abort(self) -> None:
        self.closing = True


@pytest.mark.parametrize(
    ("connections", "room", "closed"),
    [
        ([Connection(1), Connection(2)], True, []),
        ([Connection(3), Connection(1), Connection(2)], True, [1]),
        ([Connection(1, waits=False), Connection(2), Connection(3)], True, [2]),
        ([Connection(3, closing=True), Connection(2), Connection(1)], True, [3]),
        ([Connection(1, waits=False), Connection(2, waits=False), Connection(3, waits=False)], False, []),
    ],
)
def test_who_gives_way(connections: list[Connection], room: bool, closed: list[int]) -> None:
    assert make_room(connections, 2) is room
    assert [each.number for each in connections if each.closing] == closed
