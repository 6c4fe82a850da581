"""The limit of open files: raised where that is allowed, shared where it is low."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bolide.errors import ConfigError
from bolide.node.machine.open_files import ENOUGH, MOST, OTHERS, share_of_connections, share_of_store
from proof.kit.waiting import PROCESS_PATIENCE

PROGRAM = """
import resource, sys
from bolide.node.machine.open_files import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (300, {hard}))
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("hard", "limit"), [(300, 300), (900, 900)])
def test_the_soft_limit_is_raised_to_the_hard_one(hard: int, limit: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hard=hard)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_PATIENCE,
    )
    assert done.stdout.split() == [str(limit), str(limit), str(hard)]


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
