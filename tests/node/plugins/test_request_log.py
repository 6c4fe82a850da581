"""Lines that follow each request and each message, where they are asked for."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from bolide.node.plugins.request_log import LOG_NAME
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from proof.kit.waiting import PATIENCE
from tests.broker.parts import text
from tests.node.brokers import broker, pull_request, send_request


async def lines(folder: Path, caplog: pytest.LogCaptureFixture, requests: list[Command], **settings: Any) -> list[str]:
    with caplog.at_level(logging.INFO, LOG_NAME):
        async with broker(folder, **settings) as (_, client):
            for request in requests:
                await client.request(request, PATIENCE)
    found = [record.getMessage() for record in caplog.records if record.name == LOG_NAME]
    return [re.sub(r"127\.0\.0\.1:\d+", "PEER", re.sub(r"id=[0-9A-F]{32}", "id=STORED", line)) for line in found]


async def test_a_message_is_followed_from_its_send_to_its_delivery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [send_request(properties=text(UNIQ_KEY="M1")), pull_request(), pull_request(offset=1)]
    assert await lines(tmp_path, caplog, requests, broker_hooks="requestLog") == [
        "request 1 of PEER: SEND_MESSAGE_V2 message=M1 topic=T queue=0 group=pg",
        "request 1 returned SUCCESS message=M1 topic=T queue=0 offset=0 id=STORED",
        "request 2 of PEER: PULL_MESSAGE topic=T queue=0 offset=0 group=g",
        "request 2 returned SUCCESS topic=T queue=0 messages=1",
        "request 2 delivers message=M1 topic=T queue=0 offset=0 group=g",
        "request 3 of PEER: PULL_MESSAGE topic=T queue=0 offset=1 group=g",
        "request 3 returned PULL_NOT_FOUND: OFFSET_OVERFLOW_ONE topic=T queue=0 messages=0",
    ]


async def test_send_back_is_logged_with_its_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    returned = {"group": "g", "offset": "0", "delayLevel": "3", "originMsgId": "M1", "originTopic": "T"}
    requests = [send_request(properties=text(UNIQ_KEY="M1")), make_request(codes.CONSUMER_SEND_MSG_BACK, 0, returned)]
    assert (await lines(tmp_path, caplog, requests, broker_hooks="requestLog"))[2:] == [
        "request 2 of PEER: CONSUMER_SEND_MSG_BACK message=M1 topic=T group=g level=3",
        "request 2 returned SUCCESS message=M1 topic=T group=g",
    ]


async def test_a_refusal_is_told_and_a_signature_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    signed = {"AccessKey": "ann", "Signature": "c2lnbmVk", "group": "no\nline", "topic": "T", "queueId": "0"}
    odd = make_request(codes.SEND_MESSAGE_V2, 0, {"a": "pg"})  # its header lacks what a send needs
    begun, answered, refused = await lines(
        tmp_path,
        caplog,
        [make_request(codes.INVOKE_BROKER_TO_RESET_OFFSET, 0, signed), odd],
        broker_hooks="requestLog",
    )
    assert begun.startswith("request 1 of PEER: ") and "topic=T" in begun
    assert "ann" not in begun and "c2lnbmVk" not in begun and "\n" not in begun
    assert answered.startswith("request 1 returned SYSTEM_ERROR: ")
    assert refused.startswith("request 0 returned SYSTEM_ERROR: ")


async def test_requests_are_logged_only_on_demand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await lines(tmp_path, caplog, [send_request(), pull_request()]) == []
