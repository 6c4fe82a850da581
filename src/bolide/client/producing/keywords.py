"""The keywords of a producer, and those of their defaults that have a name."""

from __future__ import annotations

from typing import Final

from bolide.client.instance.options import ConnectionOptions
from bolide.client.messages.codec import CodecChoice
from bolide.client.tracing.interceptor import Interceptor

SEND_TIMEOUT: Final = 3.0
"""Seconds for one message, all its tries together."""
MAX_IN_FLIGHT: Final = 4096


class ProducerOptions(ConnectionOptions, total=False):
    """The keywords of `Producer`, for a class that passes them on."""

    timeout: float
    retries: int
    max_in_flight: int
    compress_above: int
    compression: str
    max_body: int
    queue_count: int
    codec: CodecChoice
    interceptors: tuple[Interceptor, ...]
    trace: bool
    latency_faults: bool
    retry_when_not_safe: bool
