"""The limit of open files: shared where it is low."""

from __future__ import annotations

import pytest

from bolide.errors import ConfigError
from bolide.node.machine.open_files import MOST, OTHERS, share_of_connections, share_of_store
from bolide.world.open_files import ENOUGH


def test_the_store_takes_a_quarter_at_most() -> None:
    assert share_of_store(ENOUGH) == MOST
    assert share_of_store(1024) == 256
    with pytest.raises(ConfigError, match="ulimit"):
        share_of_store(200)


@pytest.mark.parametrize("limit", [256, 512, 1024, 4096, 20_000, ENOUGH])
def test_connections_have_what_the_store_leaves(limit: int) -> None:
    store = share_of_store(limit)
    most = share_of_connections(limit, 20_000, store)
    assert 0 < most <= 20_000
    assert most + store + OTHERS <= limit
    assert share_of_connections(limit, 7, store) == 7
