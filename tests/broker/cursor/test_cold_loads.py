"""Cold loads: one at a time for each service, and only one for each read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.store.disk.extents import Extent
from tests.broker.cursor.following import Following
from tests.broker.parts import NOW


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Following]:
    made = Following(tmp_path)
    yield made
    made.close()


def test_all_extents_share_a_load(parts: Following) -> None:
    assert [parts.loads.want(Extent(path, 0, 1)) for path in "ab"] == [1, 1]
    assert not parts.loads.active and parts.effects.loads == []
    parts.loads.begin()
    assert parts.loads.active
    ((extents, then),) = parts.effects.take().loads
    assert [extent.path for extent in extents] == ["a", "b"]
    assert parts.loads.ended == 0 and parts.woken == []
    then(NOW + 5)
    assert parts.loads.ended == 1 and parts.woken == [NOW + 5] and not parts.loads.active


def test_a_service_without_requests_starts_no_load(parts: Following) -> None:
    parts.loads.begin()
    assert not parts.loads.active and parts.effects.loads == []


def test_a_second_load_waits_for_the_first(parts: Following) -> None:
    parts.loads.want(Extent("a", 0, 1))
    parts.loads.begin()
    assert parts.loads.want(Extent("b", 0, 1)) == 0
    parts.loads.begin()
    ((_, then),) = parts.effects.take().loads
    then(NOW)
    parts.loads.begin()
    assert parts.effects.loads == [], "the second extent must be requested again"


def test_a_record_is_loaded_once_and_then_read(parts: Following) -> None:
    (place,) = parts.put(1)
    assert not parts.loads.lacks(*place)
    parts.store.queues.flush(True)
    parts.files.cold = True
    assert parts.loads.lacks(*place) and parts.loads.active
    assert parts.load(warm=False) == 1
    assert not parts.loads.lacks(*place), "it left memory again: the read waits"
    assert parts.loads.lacks(*place), "a later read does not"


def test_the_load_of_one_record_lets_no_other_wait_for_the_disk(parts: Following) -> None:
    first, second = parts.put(2)
    parts.store.queues.flush(True)
    parts.files.cold = True
    assert parts.loads.lacks(*first)
    parts.load(warm=False)
    assert parts.loads.lacks(*second)
