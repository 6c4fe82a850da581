"""Expression types that other packages install: found by entry point, used by subscriptions, broken ones told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bolide.broker.expressions import ExpressionTypes
from bolide.errors import ConfigError
from bolide.node.plugins import expression_types

MODULE = '''
from bolide.broker.expressions import Compiled


def begins(text):
    """The property `city` begins with the text."""
    return Compiled(None, lambda properties: properties["city"].startswith(text))
'''


def install(folder: Path, target: str) -> None:
    """Put a package with one entry point where Python looks for packages."""
    (folder / "cities_for_bolide.py").write_text(MODULE)
    info = folder / "cities_for_bolide-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cities-for-bolide\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bolide.expression_types]\nBEGINS = {target}\n")


def test_an_installed_type_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "cities_for_bolide:begins")
    monkeypatch.syspath_prepend(tmp_path)
    types = ExpressionTypes(expression_types())
    evaluate = types.compile("BEGINS", "Hang").evaluate
    assert evaluate is not None
    assert evaluate({"city": "Hangzhou"}) and not evaluate({"city": "Berlin"})
    sys.modules.pop("cities_for_bolide", None)


def test_a_broken_one_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "cities_for_bolide:ends")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="BEGINS \\(cities_for_bolide:ends\\) cannot be loaded"):
        expression_types()
    sys.modules.pop("cities_for_bolide", None)
