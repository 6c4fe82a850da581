"""Producers and consumers, and every name a program needs to use them.

`bolide.client` and `bolide.client.blocking` are the public modules of the client; modules below them may move without
notice. `OpenTelemetry`, `PrometheusMetrics` and `run` are imported at their first use: the first two need
``bolide[otel]`` and ``prometheus-client``, and few programs need the probe server of `run`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from bolide.client.consuming import strategies
from bolide.client.consuming.activity import Activity
from bolide.client.consuming.custom_offsets import OffsetStore
from bolide.client.consuming.flow_options import FlowControl
from bolide.client.consuming.message_filter import FilterMessageHook
from bolide.client.consuming.pull import PullResult, PullStatus
from bolide.client.consuming.pull_consumer import PullConsumer
from bolide.client.consuming.push_consumer import PushConsumer
from bolide.client.consuming.queue_listener import QueueListener
from bolide.client.consuming.strategies import Strategy
from bolide.client.instance.options import ConnectionOptions
from bolide.client.messages.checked import UnexpectedArgument
from bolide.client.messages.codec import (
    Codec,
    CodecChoice,
    CodecContext,
    CodecError,
    CodecsByTopic,
    JsonCodec,
    PydanticCodec,
)
from bolide.client.messages.errors import (
    ClientForked,
    ClientStateError,
    DamagedMessage,
    MessageRefused,
    NoQueue,
    ResponseError,
    SendFailed,
    TooFast,
    TopicNotFound,
)
from bolide.client.messages.hooks import AclHook, RpcCall, RpcHook
from bolide.client.messages.light_queues import lmq
from bolide.client.messages.listener import DEAD_LETTER, BatchListener, ConsumeResult, Listener, RetryLater
from bolide.client.messages.message import Message
from bolide.client.messages.moment import Moment
from bolide.client.messages.namespace import NamespaceHook
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import SendResult, SendStatus
from bolide.client.messages.start_from import StartFrom
from bolide.client.messages.subscription import Selector, selector, sql
from bolide.client.messages.transaction import TransactionListener, TransactionResult, TransactionState
from bolide.client.producing.producer import Producer, ProducerOptions
from bolide.client.producing.publish import QueueChoice
from bolide.client.producing.retry import Retry
from bolide.client.producing.transaction_producer import TransactionProducer
from bolide.client.tracing.interceptor import ConsumeCall, ConsumerCache, EndTransactionCall, Interceptor, SendCall
from bolide.client.tracing.trace import TraceBean, TraceContext, decode_trace, encode_trace
from bolide.errors import (
    ArgumentError,
    BolideError,
    ConfigError,
    ConnectionLost,
    LocalError,
    PeerError,
    ProtocolError,
    RequestTimeout,
)
from bolide.layout.names import TRACE_TOPIC
from bolide.layout.record import Record
from bolide.remoting.command import Command
from bolide.remoting.errors import CompressionError
from bolide.world.contract import BoundPort, SmallFiles, Worker, World

if TYPE_CHECKING:
    from bolide.client.tracing.otel import OpenTelemetry
    from bolide.client.tracing.prometheus import PrometheusMetrics
    from bolide.client.worker import run

__all__ = [
    # clients
    "Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "run", "Activity",
    # messages and results
    "Message", "ReceivedMessage", "Record", "MessageQueue", "SendResult", "SendStatus",
    "TransactionResult", "TransactionState", "PullResult", "PullStatus",
    # listeners
    "Listener", "BatchListener", "TransactionListener", "QueueListener", "ConsumeResult", "RetryLater", "DEAD_LETTER",
    # arguments
    "Retry", "FlowControl", "ConnectionOptions", "ProducerOptions", "World", "BoundPort", "SmallFiles", "Worker",
    "Moment", "StartFrom", "QueueChoice", "Selector", "sql",
    "selector", "lmq", "Strategy", "strategies",
    "Codec", "CodecContext", "CodecChoice", "CodecsByTopic", "JsonCodec", "PydanticCodec",
    # hooks, interceptors, traces
    "OffsetStore", "FilterMessageHook", "RpcHook", "RpcCall", "Command", "AclHook", "NamespaceHook",
    "Interceptor", "SendCall", "ConsumeCall", "EndTransactionCall", "ConsumerCache", "OpenTelemetry",
    "PrometheusMetrics", "TRACE_TOPIC", "TraceContext", "TraceBean", "decode_trace", "encode_trace",
    # errors
    "BolideError", "LocalError", "PeerError", "ArgumentError", "UnexpectedArgument", "ClientForked",
    "ClientStateError", "CodecError", "CompressionError", "ConfigError", "ConnectionLost", "DamagedMessage",
    "MessageRefused", "NoQueue", "ProtocolError", "RequestTimeout", "ResponseError", "SendFailed", "TooFast",
    "TopicNotFound",
]  # fmt: skip


_OPTIONAL: Final = {
    "OpenTelemetry": ("bolide.client.tracing.otel", "opentelemetry", '"bolide[otel]"'),
    "PrometheusMetrics": ("bolide.client.tracing.prometheus", "prometheus_client", "prometheus-client"),
}
"""Module of each name that needs an optional package, the package, and its requirement for `pip install`."""


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


# A star import imports every name of __all__, and would fail without the optional packages.
__all__ = [name for name in __all__ if name not in _OPTIONAL or _installed(_OPTIONAL[name][1])]


def __getattr__(name: str) -> Any:
    if name == "run":
        from bolide.client.worker import run

        return run
    if name in _OPTIONAL:
        module, package, requirement = _OPTIONAL[name]
        try:
            return getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            raise ImportError(f"{name} needs {package}: run pip install {requirement} ({error})") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
