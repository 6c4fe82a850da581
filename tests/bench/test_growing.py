"""The smallest sizes of what grows are measured, and drawn; how a cost grows, no test says."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.loads.growing import SERIES, Series, chosen_series, grown
from bench.report.growing_page import drawn
from bench.servers.stopping import Failed

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the bench is built with a C compiler")


@needs_compiler
@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
def test_each_figure_of_a_series_is_measured_and_drawn(series: Series, tmp_path: Path) -> None:
    values = grown([(series, (2.0,))], tmp_path, 0.3)
    ((size, figures),) = values[0]["points"]
    assert size == 2
    assert all(figures[one.name] >= 0 for one in series.figures)
    assert list(tmp_path.iterdir()) == []  # no store is left
    page = drawn(
        {"date": "d", "commit": "c", "machine": {"cpus": "2"}, "load_before": 0.1, "command": "x", "series": values}
    )
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == len(series.figures)
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    assert not re.search(r"(src|href)=|url\(|@import|<script|https?://", page)


def test_series_and_sizes_are_chosen() -> None:
    assert [series.name for series, _ in chosen_series("", "", small=False)] == [series.name for series in SERIES]
    ((series, sizes),) = chosen_series("log", "log=10,1", small=False)
    assert (series.name, sizes) == ("log", (1, 10))
    assert all(max(sizes) <= 1000 for _, sizes in chosen_series("", "", small=True))
    for only, sizes in (("nothing", ""), ("", "log"), ("", "log=many"), ("", "log=0"), ("", "none=1")):
        with pytest.raises(Failed, match="log"):
            chosen_series(only, sizes, small=False)
