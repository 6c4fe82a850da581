"""The fixture that runs a test over every golden store."""

from __future__ import annotations

import pytest

from tests.golden.stores import GOLDEN_NAMES, GoldenStore, golden_store


@pytest.fixture(scope="session", params=GOLDEN_NAMES)
def golden(request: pytest.FixtureRequest) -> GoldenStore:
    """Each golden store in turn."""
    return golden_store(request.param)
