"""Fixtures for tests of code that uses RocketMQ: `bolide_broker`, a broker of the test's own.

Loaded by pytest through the entry point of the package. A test that wants other settings marks itself:
`@pytest.mark.bolide_broker(auto_create_topic_enable=False)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bolide.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "bolide_broker(**settings): settings of the broker given by `bolide_broker`")


@pytest.fixture
def bolide_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A running name server and broker; `.namesrv_addr` is what a client needs."""
    from bolide.testing.broker import Broker  # only a test that asks for a broker pays for importing one

    mark = request.node.get_closest_marker("bolide_broker")
    with Broker(**(mark.kwargs if mark is not None else {})) as broker:
        yield broker
