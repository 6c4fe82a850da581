"""Request 1007: the epochs of a log, as an operator sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.operator.controlled import ControlledService
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.controller import EpochEntry, EpochEntryCache
from bolide.remoting.command import make_request
from bolide.replication.epochs import Epoch, Epochs
from tests.broker.parts import NOW, Parts, reply_of

LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("epochs", "told"),
    [
        ([], []),  # a slave that has nothing yet
        ([Epoch(1, 0)], [EpochEntry(1, 0, LAST)]),
        ([Epoch(1, 0), Epoch(3, 714)], [EpochEntry(1, 0, 714), EpochEntry(3, 714, LAST)]),
    ],
)
def test_epochs_end_where_the_next_one_begins(tmp_path: Path, epochs: list[Epoch], told: list[EpochEntry]) -> None:
    parts = Parts(tmp_path)
    service = ControlledService(parts.options, parts.store, parts.role)
    service.epochs = lambda: Epochs(epochs)
    request = make_request(codes.GET_BROKER_EPOCH_CACHE, 1, {})
    answer = reply_of(service.handlers()[codes.GET_BROKER_EPOCH_CACHE](parts.channel, request, NOW))
    parts.close()
    assert answer.code == codes.SUCCESS
    assert decode_body(answer.body, EpochEntryCache).epoch_list == told
