"""A data source that reports why it cannot be used, for a Python that lacks one of its requirements.

Spark imports the modules of all Python sources whenever it looks for one. An error in one of them hides the others.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from bolide.spark.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def require(*modules: str) -> None:
    """Raise ImportError if one of these modules is not installed, without importing them."""
    for module in modules:
        if find_spec(module) is None:
            raise ImportError(f"No module named {module}")


def missing_source(called: str, error: Exception) -> type[DataSource]:
    """Return a source of this name for a Python in which its modules raise this error."""
    why = f'format("{called}") cannot run in this Python: {error}; pip install "bolide[spark]" installs what it needs'

    class Missing(DataSource):
        """Raises SparkMissing for every use."""

        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> NoReturn:
            raise SparkMissing(why)

        def reader(self, schema: StructType) -> NoReturn:
            raise SparkMissing(why)

        def streamReader(self, schema: StructType) -> NoReturn:
            raise SparkMissing(why)

        def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
            raise SparkMissing(why)

        def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
            raise SparkMissing(why)

    return Missing
