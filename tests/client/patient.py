"""The clients with limits that suit a busy machine: a stall of some seconds exceeds their own, which are 3 s."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bolide import admin, client
from bolide.client.instance.options import ClientOptions, ConnectionOptions
from proof.kit.waiting import PROCESS_PATIENCE


def patient(options: ClientOptions, **more: Any) -> ClientOptions:
    """Options for connections, routes and everything else that has no limit of its own."""
    return replace(options, call_timeout=PROCESS_PATIENCE, **more)


class _Sending:
    """A producer: a message has the time of the whole test, unless it is given less."""

    def __init__(self, *arguments: Any, timeout: float = PROCESS_PATIENCE, **more: Any) -> None:
        super().__init__(*arguments, timeout=timeout, **more)

    def _options_of(self, namesrv: str, connection: ConnectionOptions) -> ClientOptions:
        return patient(super()._options_of(namesrv, connection))


class Producer(_Sending, client.Producer): ...


class TransactionProducer(_Sending, client.TransactionProducer): ...


class _Consuming:
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._member.options = patient(self._member.options)


class PushConsumer(_Consuming, client.PushConsumer): ...


class PullConsumer(_Consuming, client.PullConsumer):
    async def poll(self, timeout: float = PROCESS_PATIENCE, max_messages: int = 32) -> list[client.ReceivedMessage]:
        return await super().poll(timeout, max_messages)


class Admin(admin.Admin):
    def __init__(self, *arguments: Any, timeout: float = PROCESS_PATIENCE, **more: Any) -> None:
        super().__init__(*arguments, timeout=timeout, **more)
        self._options = patient(self._options)
