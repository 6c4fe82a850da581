"""Producers and consumers."""

from bolide.client.codec import BodyError, Codec, JsonCodec, PydanticCodec
from bolide.client.errors import (
    ClientForked,
    ClientStateError,
    MessageRefused,
    NoQueue,
    ResponseError,
    SendFailed,
    TooFast,
    TopicNotFound,
)
from bolide.client.hooks import AclHook, RpcHook
from bolide.client.interceptor import ConsumeCall, EndTransactionCall, Interceptor, SendCall
from bolide.client.light_queues import lmq
from bolide.client.listener import ConsumeResult, RetryLater
from bolide.client.message import Message
from bolide.client.namespace import NamespaceHook
from bolide.client.producer import Producer
from bolide.client.pull_consumer import PullConsumer
from bolide.client.push_consumer import PushConsumer
from bolide.client.queue import MessageQueue
from bolide.client.received import ReceivedMessage
from bolide.client.send_result import SendResult, SendStatus
from bolide.client.subscription import Selector, Sql, selector, sql
from bolide.client.transaction import TransactionListener, TransactionResult, TransactionState
from bolide.client.transaction_producer import TransactionProducer

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
