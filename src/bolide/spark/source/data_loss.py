"""Handles messages that should be read and are gone: the read fails, or warns and continues with what is left."""

from __future__ import annotations

import logging
from typing import Final

from bolide.spark.errors import DataLost

_LOG: Final = logging.getLogger("bolide.spark")


def data_lost(what: str, fail: bool, instead: str) -> None:
    """Raise DataLost if `failOnDataLoss` is set; else log a warning in the process that reads, and continue.

    `instead` is what the read does without the option.
    """
    if fail:
        raise DataLost(f"{what}; set failOnDataLoss to false to {instead}")
    _LOG.warning("%s; failOnDataLoss is false: the read continues", what)
