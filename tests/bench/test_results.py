"""Medians and ratios, the table, the drawn page and the tables of the documentation, from figures that are given."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.loads.rows import Compared, chosen_rows
from bench.report.page import drawn
from bench.report.results import Result, as_values, better, number, table
from bench.written import comparison, growth, keep
from tools.generate_results import ORDER, loaded, page, problem, rendered

SERVERS = ("java", "bolide")


def of_rates(name: str, java: list[float], bolide: list[float]) -> Result:
    rounds = {
        server: [{"rate": rate, "user_us": 1.0, "system_us": 0.5, "others": 0.1, "p99_us": 2.0} for rate in rates]
        for server, rates in (("java", java), ("bolide", bolide))
    }
    return Result(chosen_rows(name)[0], rounds, {"rate": 1000.0}, {"java": 3.0, "bolide": 0.5})


def result_of(rows: list[Result]) -> dict[str, Any]:
    return {
        "machine": {"cpu": "<one> & two", "cpus": "2"},
        "commit": "abc",
        "command": "make bench",
        "date": "2026-01-02",
        "minutes": 12.3,
        "load_before": 0.5,
        "rounds": 3,
        "servers": list(SERVERS),
        "rows": as_values(rows, SERVERS),
    }


def test_a_ratio_is_the_median_over_the_rounds_and_the_ceiling_is_told() -> None:
    result = of_rates("send 8x32 128 B async", [100, 200, 400], [300, 810, 820])
    assert result.ratio(result.row.compared[0], "java") == 3.0
    assert result.median("bolide", "rate") == 810
    result.rounds["java"] = [{**figures, "user_us": 4.0} for figures in result.rounds["java"]]
    assert result.cost_ratio("java") == 3.0  # 4.5 by 1.5
    assert result.bound_by_generator("bolide") and not result.bound_by_generator("java")


def test_less_is_better_where_it_is_a_time() -> None:
    assert better(2.0, 6.0, less=True) == 3.0
    assert better(6.0, 2.0, less=False) == 3.0
    assert better(1.0, 0.0, less=False) == 0.0
    result = Result(chosen_rows("heartbeats")[0], {"java": [{"seconds": 8.0}], "bolide": [{"seconds": 1.0}]})
    assert result.ratio(Compared("seconds", "s", less=True), "java") == 8.0


def test_a_row_that_failed_has_no_figures_and_is_told_all_the_same() -> None:
    result = Result(chosen_rows("send 1x1 128 B sync")[0], failures=["it failed"])
    text = table(as_values([result], SERVERS), SERVERS)
    assert "send 1x1 128 B sync" in text and " - " in text
    drawn(result_of([result]))
    comparison(result_of([result]))


def test_numbers_are_read_by_people() -> None:
    assert [number(value) for value in (None, 0.456, 12.34, 12345.6)] == ["-", "0.46", "12.3", "12,346"]


def test_the_page_is_one_file_of_valid_drawings() -> None:
    page = drawn(result_of([of_rates("send 8x32 128 B async", [100], [250]), of_rates("batches of 16", [100], [50])]))
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"(src|href)=|url\(|@import|<script|https?://", page)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        assert ElementTree.fromstring(drawing).get("aria-label")
    assert "2.50" in drawings[0] and "0.50" in drawings[0]
    assert "&lt;one&gt; &amp; two" in page


def test_a_comparison_has_a_row_for_each_figure() -> None:
    values = result_of([of_rates("send 8x32 128 B async", [100], [250]), of_rates("send to held pull", [1], [1])])
    for rounds in values["rows"][1]["compared"]:
        rounds["ratio"] = {"java": 2.2}
    lines = rendered(comparison(values)).splitlines()
    assert (
        "| send 8x32 128 B async | 2.50 | 4.00 | 250 /s | 100 /s | 1.00+0.50 / 1.00+0.50 | 1.00 | 0.50 / 3.00 |"
        in lines
    )
    table_lines = [line for line in lines if line.startswith("|")]
    assert len(table_lines) == 2 + 1 + 2
    assert "times less" in table_lines[-1]


def test_growth_has_a_row_for_each_figure_with_all_sizes() -> None:
    figures = [{"name": "rate", "title": "sends", "unit": "/s"}]
    series = [{"along": "topics", "figures": figures, "points": [[1, {"rate": 10.0}], [1000, {"rate": 9.0}]]}]
    run = growth({"date": "d", "commit": "c", "command": "x", "machine": {"cpus": 2}, "series": series})
    assert "| sends, /s | topics | 1: 10.0; 1,000: 9.00 |" in rendered(run)


def test_a_run_names_its_machine_commit_date_and_command(tmp_path: Path) -> None:
    run = comparison(result_of([of_rates("send 8x32 128 B async", [100], [250])]))
    keep(tmp_path, "broker", run)
    assert problem(json.loads((tmp_path / "broker.json").read_text(encoding="utf-8"))) == ""
    assert "Measured on 2026-01-02 at commit abc by `make bench`." in rendered(run)
    for key in ("machine", "commit", "date", "command"):
        assert key in problem({name: value for name, value in run.items() if name != key})


def test_a_row_of_another_width_is_a_problem() -> None:
    run = comparison(result_of([of_rates("send 8x32 128 B async", [100], [250])]))
    run["tables"][0]["rows"][0].pop()
    assert "has rows of" in problem(run)


def test_the_page_has_every_run() -> None:
    text = page()
    assert text.count("\nMeasured on ") == len(ORDER) == len(loaded())
    assert (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8") == text
