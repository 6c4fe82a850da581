"""The errors between Spark and a cluster, one class per condition. Spark keeps only the text of an error, so the text
must be complete."""

from __future__ import annotations

from typing import Final

from bolide.errors import LocalError, PeerError

FOREIGN_CHECKPOINT: Final = (
    "the checkpoint contains offsets of another source, such as Kafka's: give the query a checkpointLocation of its own"
)
"""Text of the error for a checkpoint without our offsets."""


class OptionError(PeerError):
    """An option of `format("rocketmq")` is missing, unknown or wrong. The text names it and the value to set."""


class TopicMissing(OptionError):
    """No name server has a route of a topic: it does not exist, or its only broker is down."""


class DataLost(LocalError):
    """The broker no longer stores the offsets to read, or stores other messages there."""


class ClusterUnavailable(LocalError):
    """No name server, or no broker of a queue, responded in time."""

    retriable = True


class NotPermitted(ClusterUnavailable):
    """The user lacks a right, which the text names. Do not retry."""

    retriable = False


class BadBody(PeerError):
    """The body of a message cannot be decompressed or does not match its schema. The text has its position."""


class RowRefused(PeerError):
    """A row cannot become a message. The text has the row and the reason."""


class CorruptStore(LocalError):
    """A commit log lacks a record at an offset. The text has the offset, and how to read the rest."""


class AlreadyRunning(LocalError):
    """Another run of the same job uses the same progress. The text identifies it."""


class SparkMissing(LocalError):
    """PySpark cannot be imported. The text explains how to install it."""
