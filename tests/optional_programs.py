"""Programs without which some tests cannot run."""

from __future__ import annotations

import os

import pytest

from proof.kit.ensured import ProgramMissing, ensured

SKIP_OPTIONAL = "BOLIDE_SKIP_OPTIONAL"
"""Set where tests that need what is not there are skipped."""


def needed(name: str) -> str:
    """The path of etcd or promtool. Without it the test fails, or is skipped if the run asked for it."""
    try:
        return ensured(name)
    except ProgramMissing as error:
        if os.environ.get(SKIP_OPTIONAL):
            pytest.skip(str(error))
        pytest.fail(f"{error}, or leave such tests out with --skip-optional", pytrace=False)
