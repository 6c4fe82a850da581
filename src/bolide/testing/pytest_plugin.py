"""Fixtures for tests of code that uses RocketMQ: `bolide_broker`, a broker for the test.

pytest loads it through the package's entry point. A test that needs other settings uses a mark:
`@pytest.mark.bolide_broker(auto_create_topic_enable=False)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bolide.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "bolide_broker(**settings): settings of the broker given by `bolide_broker`")


@pytest.fixture
def bolide_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running name server and broker. Clients connect to `.namesrv_addr`."""
    from bolide.testing.broker import Broker  # imported only by tests that use a broker

    mark = request.node.get_closest_marker("bolide_broker")
    with Broker(**(mark.kwargs if mark is not None else {})) as broker:
        yield broker
