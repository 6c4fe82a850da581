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
    ("connections", "closed"),
    [
        ([Connection(1), Connection(2)], []),
        ([Connection(3), Connection(1), Connection(2)], [1]),
        ([Connection(1, waits=False), Connection(2), Connection(3)], [2]),
        ([Connection(3, closing=True), Connection(2), Connection(1)], [3]),
        ([Connection(1, waits=False), Connection(2, waits=False), Connection(3, waits=False)], []),
    ],
)
def test_idle_connections_close_first(connections: list[Connection], closed: list[int]) -> None:
    make_room(connections, 2)
    assert [each.number for each in connections if each.closing] == closed
