"""The limit of open files is raised where that is allowed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proof.kit.waiting import PROCESS_PATIENCE

PROGRAM = """
import resource, sys
from bolide.world.open_files import raise_limit
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
