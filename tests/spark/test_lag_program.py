"""The program of the page that shows the lag of a query, in a real session."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any

import pytest

from bolide.testing.broker import Broker
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_the_program_of_the_page(spark: Any, bolide_broker: Broker, tmp_path: Any) -> None:
    from tests.page_programs import program

    bolide_broker.create_topic("Orders", queues=1)
    port = reserve_port()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            program("spark_lag").main(bolide_broker.namesrv_addr, str(tmp_path / "checkpoint"), port)
        except BaseException as error:
            failed.append(error)

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text: str = answer.read().decode()
        except OSError:  # not yet served
            return ""
        return text

    thread = threading.Thread(target=run, name="spark-lag")
    thread.start()
    try:
        sample = 'bolide_spark_offsets_behind_latest{query="orders",source="0",topic="Orders"} 0.0'
        wait_until(lambda: failed or sample in page(), "the page shows the lag")
    finally:
        wait_until(lambda: failed or spark.streams.active, "the query runs")
        for query in spark.streams.active:
            query.stop()
        thread.join()
    assert failed == []
