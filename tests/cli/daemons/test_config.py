"""`bolide config show`: values, origins and what the declarations say."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.running import invoke


def shown(*words: str) -> list[dict[str, Any]]:
    result = invoke("config", "show", *words, "--json")
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_a_setting_is_described_by_its_declaration() -> None:
    (row,) = shown("broker", "--changed", "--describe", "--set", "fileReservedTime=48")
    assert list(row.values()) == [
        "fileReservedTime",
        "48",
        "flag",
        "a whole number from 1 to 2147483648 (h)",
        "live",
        "Retention time of a log file after its last change.",
    ]


def test_without_describe_a_row_is_key_value_and_origin() -> None:
    rows = shown("namesrv")
    assert {len(row) for row in rows} == {3}
    assert "waitSecondsForService" in {next(iter(row.values())) for row in rows}


def test_a_key_without_effect_and_a_value_out_of_range_are_named() -> None:
    said = invoke("config", "show", "--set", "readUnCommitted=3", "--json")
    assert "readUnCommitted has no effect here: messages can be read once they are confirmed" in said.stderr
    said = invoke("config", "show", "--set", "maxTopics=0")
    assert said.exit_code == 2
    assert "maxTopics = '0' (flag) is not allowed: it must be a whole number from 1 to" in said.stderr
