"""Handles `CREATE TABLE t USING rocketmq`, for which Spark requests the schema of the source.

Spark stores only the columns of such a table: its OPTIONS reach neither a read nor a write. So this module rejects them
instead of ignoring them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bolide.spark.errors import OptionError

_PROVIDER: Final = "provider"
"""A property of every created table, passed as an option. Spark also passes the table's OPTIONS with a prefix."""
_PREFIX: Final = "option."
_PATH: Final = "path"
"""Not an option of the source: for Spark it is the location of a table's files."""


def is_table(options: Mapping[str, str], source: str) -> bool:
    """Return whether options are the properties of a CREATE TABLE. Raises `OptionError` if the table has OPTIONS."""
    given = {name.lower() for name in options}
    if _PROVIDER not in given:
        return False
    own = sorted(name.removeprefix(_PREFIX) for name in given if name.startswith(_PREFIX) or name == _PATH)
    if own:
        raise OptionError(
            f"Spark does not store the OPTIONS of a table, here {own[0]}: move them to its use, FROM t WITH ({own[0]} "
            f"= '…'), or use CREATE TEMPORARY VIEW v USING `{source}` OPTIONS (…)"
        )
    return True
