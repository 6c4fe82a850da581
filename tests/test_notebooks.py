"""The cells of the notebooks run in order, in the session of the tests, and print what the text next to them says."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from bolide.testing import Broker

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def printed(name: str) -> list[str]:
    """Run a notebook and return the output of each cell of code."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)  # would grow old
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    try:
        for number, cell in enumerate(cells):
            with redirect_stdout(StringIO()) as out:
                exec(compile("".join(cell["source"]), f"cell {number} of {name}", "exec"), names)
            outputs.append(out.getvalue())
    finally:
        for value in names.values():
            if isinstance(value, Broker):
                value.stop()
    return outputs


def test_flights_through_a_topic(spark: Any) -> None:
    told = printed("pipeline")
    assert told[0].startswith("name server: 127.0.0.1:")
    assert told[1] == "20,000 messages are stored\n"
    assert "dep_delay" in told[2] and " UA|" in told[3]
    assert "departures of UA and DL were more than an hour late" in told[4] and not told[4].startswith("0 ")
    assert told[5] == "20,000 rows\n2 rows\n"


def test_a_look_into_a_store(spark: Any) -> None:
    told = printed("store")
    assert "orders" in told[2] and "rmq_sys_wheel_timer" in told[2]
    assert told[3].count("order-") == 6
    assert told[4] == "0 units lead to no message\n7 of 7 messages are in a queue\n"
    assert "sum(size)" in told[5]
