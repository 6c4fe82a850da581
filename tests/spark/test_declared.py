"""Each declared option of the data sources has a reader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import bolide
from bolide.spark.body.body_options import BodyOptions
from bolide.spark.declared import options_in
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.source.row_filters import RowFilters
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.tls_options import Tls
from bolide.spark.store.store_options import StoreReadOptions


def attributes_read() -> Iterator[str]:
    """Names of attributes that the sources of the package read."""
    for file in (Path(bolide.__file__).parent / "spark").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield node.attr


@pytest.mark.parametrize("kind", [SourceOptions, RowFilters, Tls, BodyOptions, SinkOptions, StoreReadOptions])
def test_each_option_has_a_reader(kind: type[Any]) -> None:
    declaring = {one.name for one in fields(kind) if one.metadata}
    assert len(declaring) == len(options_in(kind))
    assert declaring - set(attributes_read()) == set()
