"""Bolide: Apache RocketMQ's messaging system in Python, with its data pipeline on Spark."""

from bolide import _impl
from bolide.version import VERSION as __version__

_impl.choose()

__all__ = ["__version__"]
