"""A session sets variables of its process, for the JVM that it starts: no test after it finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    before = {**os.environ}
    yield
    os.environ.clear()
    os.environ.update(before)
