"""The blocking clients with the limits of `tests.client.patient`."""

from __future__ import annotations

from typing import Any

from bolide.admin import blocking as admin
from bolide.client import ReceivedMessage
from bolide.client import blocking as client
from proof.kit.waiting import PROCESS_PATIENCE
from tests.client.patient import patient


class _Sending:
    def __init__(self, *arguments: Any, timeout: float = PROCESS_PATIENCE, **more: Any) -> None:
        super().__init__(*arguments, timeout=timeout, **more)
        self._native._sender.options = patient(self._native._sender.options)


class Producer(_Sending, client.Producer): ...


class TransactionProducer(_Sending, client.TransactionProducer): ...


class _Consuming:
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._native._member.options = patient(self._native._member.options)


class PushConsumer(_Consuming, client.PushConsumer): ...


class PullConsumer(_Consuming, client.PullConsumer):
    def poll(self, timeout: float = PROCESS_PATIENCE, max_messages: int = 32) -> list[ReceivedMessage]:
        return super().poll(timeout, max_messages)


class Admin(admin.Admin):
    def __init__(self, *arguments: Any, timeout: float = PROCESS_PATIENCE, **more: Any) -> None:
        super().__init__(*arguments, timeout=timeout, **more)
        self._native._options = patient(self._native._options)
