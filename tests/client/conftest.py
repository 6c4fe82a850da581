"""A scripted broker for each test of a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.scripted_broker import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A running broker with the default queues. Tests that need other arguments start their own."""
    with ScriptedBroker() as broker:
        yield broker
