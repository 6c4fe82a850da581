"""The errors between Spark and a cluster, one class per condition. Spark keeps only the text, so it says everything."""

from __future__ import annotations

from typing import Final

from bolide.errors import LocalError, PeerError

FOREIGN_CHECKPOINT: Final = (
    "the checkpoint contains offsets of another source, such as Kafka's: give the query a checkpointLocation of its own"
)
"""Text of the error for a checkpoint without our offsets."""


class OptionError(PeerError):
    """An option of `format("rocketmq")` is missing, unknown or wrong; says which and what to set instead."""


class TopicMissing(OptionError):
    """No name server has a route of a topic: it does not exist, or its only broker is down."""


class DataLost(LocalError):
    """Offsets to read are no longer in the broker, or no longer the same messages."""


class ClusterUnavailable(LocalError):
    """No name server, or no broker of a queue, responded in time."""

    retriable = True


class NotPermitted(ClusterUnavailable):
    """This user lacks a right; says which. Do not retry."""

    retriable = False


class BadBody(PeerError):
    """A message whose body cannot be decompressed or does not fit its schema; says where, and what to do."""


class RowRefused(PeerError):
    """A row cannot become a message; says which row and why."""


class CorruptStore(LocalError):
    """A CommitLog lacks a record where one should be; says where, and how to read the rest."""


class AlreadyRunning(LocalError):
    """Another run of the same job continues from the same progress; says which."""


class SparkMissing(LocalError):
    """PySpark cannot be imported. The text explains how to install it."""
