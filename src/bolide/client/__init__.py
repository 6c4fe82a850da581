"""Producers and consumers."""

from bolide.client.message import Message
from bolide.client.producer import Producer
from bolide.client.queue import MessageQueue
from bolide.client.send_result import SendResult, SendStatus

__all__ = ["Message", "MessageQueue", "Producer", "SendResult", "SendStatus"]
