"""Logs requests and the messages that they carry.

A built-in broker hook: ``brokerHooks = requestLog`` for all requests, or the attribute of a topic for its sends, pulls
and send-backs. All lines of a request contain its number. All lines of a message contain the id that its producer
assigned.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Final

from bolide.broker.hooks import BrokerHook, ConsumeCall, RequestCall, SendBackCall, SendCall
from bolide.layout.properties import parse_properties, text_of
from bolide.layout.property_names import UNIQ_KEY
from bolide.node.loop.admission import UNTOLD
from bolide.node.loop.refusals import one_line
from bolide.remoting import codes

LOG_NAME: Final = "bolide.requests"
_NUMBER: Final = "requestLog"
_BY_NAME: Final = frozenset(
    {
        codes.SEND_MESSAGE,
        codes.SEND_MESSAGE_V2,
        codes.SEND_BATCH_MESSAGE,
        codes.SEND_REPLY_MESSAGE,
        codes.SEND_REPLY_MESSAGE_V2,
        codes.PULL_MESSAGE,
        codes.LITE_PULL_MESSAGE,
        codes.CONSUMER_SEND_MSG_BACK,
    }
)
"""Requests whose fields are logged by name after decoding. In SEND_MESSAGE_V2 the names are single letters."""


class RequestLog(BrokerHook):
    """Request log of one broker. Numbers start with 1 when the broker starts."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._log = logging.getLogger(LOG_NAME)
        self._numbers = itertools.count(1)

    def before_request(self, call: RequestCall) -> None:
        """Log a received request."""
        if call.code not in _BY_NAME:
            self._begins(call, {name: value for name, value in call.fields.items() if name not in UNTOLD})

    def after_request(self, call: RequestCall) -> None:
        """Log a response. Responses to sends and pulls are logged with their content."""
        if call.code not in _BY_NAME or _NUMBER not in call.state:
            self._answered(call, "")

    def before_send(self, call: SendCall) -> None:
        """Log a received message or batch."""
        told = {"message": call.properties.get(UNIQ_KEY, ""), "topic": call.topic, "queue": call.queue_id}
        self._begins(call.request, told | {"group": call.producer_group})

    def after_send(self, call: SendCall) -> None:
        """Log the response to a producer."""
        answer = call.answer
        fields = answer.fields if answer is not None else {}
        told = {"message": call.properties.get(UNIQ_KEY, ""), "topic": call.topic, "queue": fields.get("queueId")}
        self._answered(call.request, _words(told | {"offset": fields.get("queueOffset"), "id": fields.get("msgId")}))

    def before_consume(self, call: ConsumeCall) -> None:
        """Log a received pull."""
        told = {"topic": call.topic, "queue": call.queue_id, "offset": call.queue_offset}
        self._begins(call.request, told | {"group": call.consumer_group})

    def after_consume(self, call: ConsumeCall) -> None:
        """Log the response to a pull, and the delivered messages."""
        found = call.answer.records() if call.answer is not None and call.answer.code == codes.SUCCESS else []
        self._answered(call.request, _words({"topic": call.topic, "queue": call.queue_id, "messages": len(found)}))
        for record in found:
            message = parse_properties(text_of(record.properties)).get(UNIQ_KEY, "")
            told = {"message": message, "topic": record.topic, "queue": int(record.queue_id)}
            told |= {"offset": int(record.queue_offset), "group": call.consumer_group}
            self._log.info("request %d delivers %s", call.request.state[_NUMBER], _words(told))

    def before_send_back(self, call: SendBackCall) -> None:
        """Log a message that a consumer returns for a retry."""
        told = {"message": call.message_id, "topic": call.topic, "group": call.consumer_group}
        self._begins(call.request, told | {"level": call.delay_level})

    def after_send_back(self, call: SendBackCall) -> None:
        """Log the response."""
        told = {"message": call.message_id, "topic": call.topic, "group": call.consumer_group}
        self._answered(call.request, _words(told))

    def _begins(self, call: RequestCall, told: Mapping[str, object]) -> None:
        number = call.state[_NUMBER] = next(self._numbers)
        who = f"{call.remote} ({one_line(call.client_id)})" if call.client_id else call.remote
        self._log.info("request %d of %s: %s %s", number, who, codes.request_name(call.code), _words(told))

    def _answered(self, call: RequestCall, told: str) -> None:
        answer = call.answer
        outcome = "no answer" if answer is None else codes.response_name(answer.code)
        why = f": {one_line(answer.remark)}" if answer is not None and answer.remark and answer.code else ""
        self._log.info("request %d returned %s%s %s", call.state.get(_NUMBER, 0), outcome, why, told)


def _words(told: Mapping[str, object]) -> str:
    return one_line(" ".join(f"{name}={value}" for name, value in told.items() if value not in ("", None)))
