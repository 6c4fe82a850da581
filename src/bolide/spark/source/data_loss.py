"""Handles messages that expired before they were read: the read fails, or warns and continues with the rest."""

from __future__ import annotations

import logging
from typing import Final

from bolide.spark.errors import DataLost

_LOG: Final = logging.getLogger("bolide.spark")


def data_lost(what: str, fail: bool, instead: str) -> None:
    """Raise `DataLost` if `failOnDataLoss` is set, otherwise log a warning in the reading process.

    `instead` describes the behaviour of the read without the option.
    """
    if fail:
        raise DataLost(f"{what}; set failOnDataLoss to false to {instead}")
    _LOG.warning("%s; failOnDataLoss is false: the read continues", what)
