"""Log settings that every server has."""

from __future__ import annotations

from typing import Protocol


class LogOptions(Protocol):
    """Log settings of a server."""

    @property
    def log_format(self) -> str: ...
    @property
    def log_levels(self) -> str: ...
    @property
    def log_file(self) -> str: ...
    @property
    def log_file_size(self) -> int: ...
    @property
    def log_file_age(self) -> int: ...
    @property
    def log_file_count(self) -> int: ...
