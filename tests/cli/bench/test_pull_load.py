"""`bolide bench pull`: its rates, and the judgement that a body is copied once."""

from __future__ import annotations

import pytest

from bolide.cli.bench.pull_load import copies_of_a_body, pull_load
from bolide.node.process.daemon import new_runner
from bolide.testing.broker import Broker


def test_a_body_is_copied_once_between_page_cache_and_socket() -> None:
    with new_runner() as loop:
        copies = loop.run(copies_of_a_body())
    assert 1.0 <= copies < 1.2


async def test_the_load_reads_the_topic_again_and_again(
    bolide_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds in (0.5, 5, 30):  # the later ones where a machine is that slow
        figures = await pull_load(bolide_broker.namesrv_addr, "Load", seconds, 500, 40, 4)
        assert isinstance(figures["pulls"], int)
        if figures["pulls"] > 4:
            break
    assert figures["pulls"] > 4
    assert isinstance(figures["mean_answer_bytes"], int) and figures["mean_answer_bytes"] > 500
    assert "sending 40 messages of 500 bytes" in capsys.readouterr().err
