"""Producers and consumers."""

from bolide.client.consuming.pull_consumer import PullConsumer
from bolide.client.consuming.push_consumer import PushConsumer
from bolide.client.messages.codec import BodyError, Codec, JsonCodec, PydanticCodec
from bolide.client.messages.errors import (
    ClientForked,
    ClientStateError,
    MessageRefused,
    NoQueue,
    ResponseError,
    SendFailed,
    TooFast,
    TopicNotFound,
)
from bolide.client.messages.hooks import AclHook, RpcHook
from bolide.client.messages.light_queues import lmq
from bolide.client.messages.listener import ConsumeResult, RetryLater
from bolide.client.messages.message import Message
from bolide.client.messages.namespace import NamespaceHook
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import SendResult, SendStatus
from bolide.client.messages.subscription import Selector, Sql, selector, sql
from bolide.client.messages.transaction import TransactionListener, TransactionResult, TransactionState
from bolide.client.producing.producer import Producer
from bolide.client.producing.transaction_producer import TransactionProducer
from bolide.client.tracing.interceptor import ConsumeCall, EndTransactionCall, Interceptor, SendCall

__all__ = [
    "AclHook",
    "BodyError",
    "ClientForked",
    "ClientStateError",
    "Codec",
    "ConsumeCall",
    "ConsumeResult",
    "EndTransactionCall",
    "Interceptor",
    "JsonCodec",
    "Message",
    "MessageQueue",
    "MessageRefused",
    "NamespaceHook",
    "NoQueue",
    "Producer",
    "PullConsumer",
    "PydanticCodec",
    "PushConsumer",
    "ReceivedMessage",
    "ResponseError",
    "RetryLater",
    "RpcHook",
    "SendCall",
    "SendFailed",
    "Selector",
    "SendResult",
    "SendStatus",
    "Sql",
    "TooFast",
    "TopicNotFound",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "lmq",
    "selector",
    "sql",
]
