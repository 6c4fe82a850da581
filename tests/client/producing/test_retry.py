"""Options of `Retry`: each reaches the sends of its producer."""

from __future__ import annotations

import pytest

from bolide.client import ArgumentError, Message, Retry
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from tests.client.patient import Producer
from tests.client.scripted_broker import ScriptedBroker


def test_a_backoff_above_its_limit_is_rejected() -> None:
    with pytest.raises(ArgumentError, match=r"^backoff is 2 s, longer than max_backoff \(1 s\)") as caught:
        Retry(backoff=2)
    assert caught.value.argument == "backoff"


async def test_later_tries_pause_for_the_backoff_which_doubles_up_to_its_limit(broker: ScriptedBroker) -> None:
    busy = iter(range(5))

    def served(command: Command) -> Command | None:
        if next(busy, None) is not None:
            return make_response(command, codes.SERVICE_NOT_AVAILABLE, "a slave")
        return broker.on_send_message_v2(command)

    broker.script[codes.SEND_MESSAGE_V2] = served
    async with Producer("P", broker.address, retry=Retry(attempts=2, backoff=0.01, max_backoff=0.03)) as producer:
        sending = producer._sender.accept(Message("T", b"x"), None, None)
        assert sending.pause == 0.01
        await sending.future
        assert (sending.pause, sending.tries) == (0.03, 6)
