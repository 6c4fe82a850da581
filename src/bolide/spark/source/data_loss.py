"""What becomes of messages that should be read and are gone: the end of the read, or a warning and what is left."""

from __future__ import annotations

import logging
from typing import Final

from bolide.spark.errors import DataLost

_LOG: Final = logging.getLogger("bolide.spark")


def data_lost(what: str, fail: bool, instead: str) -> None:
    """Raise DataLost where `failOnDataLoss` is set; else say so in the log of the process that reads, and go on.

    `instead` is what the read does without the option.
    """
    if fail:
        raise DataLost(f"{what}; set failOnDataLoss to false to {instead}")
    _LOG.warning("%s; failOnDataLoss is false: the read goes on", what)
