"""Exceptions that pass through ``except Exception``, or that a future cannot contain, as code of users raises them."""

from __future__ import annotations

import asyncio
from typing import Final


class Own(BaseException):
    """One of the user's own."""


ESCAPES: Final = (SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration, Own)
