"""The program of the page about jobs runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.page_programs import program
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_archive_look_back_and_replay(
    spark: Any, bolide_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bolide_broker.create_topic("Tea")
    orders = [Message("Orders", b"one coffee", tags="coffee"), Message("Orders", b"two teas", tags="tea")]
    send(bolide_broker.namesrv_addr, [*orders, Message("Orders", b"a tea", tags="tea")])
    program("pipeline_jobs").main(bolide_broker.namesrv_addr, str(tmp_path / "archive"))
    assert capsys.readouterr().out.splitlines() == [
        "archived 3 messages",
        "tea: 2 messages, 13 bytes",
        "coffee: 1 messages, 10 bytes",
        "sent 2 again",
    ]
