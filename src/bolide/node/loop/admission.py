"""Authorizes requests, and writes an audit line for each request that administers this broker.

The line contains user, address, request, header fields and result, and the names of topics and groups in the body. The
rest of the body is omitted, because it may contain passwords. If no signature is required, the user is the one that the
request claims.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from bolide.access.gate import RequestGate
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Handler, Outcome, Reply
from bolide.broker.refused import remark_of, response_code
from bolide.node.loop.refusals import one_line
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.request_access import COMMIT_OFFSET, END, RECALL
from bolide.remoting.request_routes import Kind, RequestTable, Row
from bolide.remoting.signature import ACCESS_KEY, FULL_SIGNATURE, SECURITY_TOKEN, SIGNATURE

LOG_NAME: Final = "bolide.audit"
UNTOLD: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, FULL_SIGNATURE})
CLIENTS: Final = (COMMIT_OFFSET, END, RECALL)
"""Access types of requests from producers and consumers, which are not audited."""


class _Named(msgspec.Struct, rename="camel"):
    """The names in a body that describes a topic or group."""

    group_name: str = ""
    consumer_group: str = ""
    topic: str = ""


class Admission:
    """Authorizes and audits the requests of one broker. Without an authorizer every request is allowed."""

    def __init__(self, table: RequestTable[Channel, Outcome], gate: RequestGate | None) -> None:
        self._log = logging.getLogger(LOG_NAME)
        self._gate = gate
        self._audited = table.codes(administers)
        for code in self._audited:
            table.handlers[code] = self._told(table.handlers[code])

    def refusal(self, channel: Channel, command: Command) -> Command | None:
        """Return the error response to a denied request, or None if the request is allowed."""
        gate = self._gate
        if gate is None:
            return None
        try:
            why = gate.refusal(channel.remote, command)
        except Exception as error:  # deny the request if the check itself fails
            self._log.error("a request of %s could not be checked: %s", channel.remote, error, exc_info=error)
            return make_response(command, codes.SYSTEM_ERROR, remark_of(error))
        if why is None:
            return None
        if command.code in self._audited:
            self._note(channel, command, codes.response_name(gate.denial))
        return make_response(command, gate.denial, why)

    def _told(self, handler: Handler) -> Handler:
        def answer(channel: Channel, command: Command, now: int) -> Outcome:
            try:
                outcome = handler(channel, command, now)
            except Exception as error:
                self._note(channel, command, codes.response_name(response_code(error)))
                raise
            done = codes.response_name(outcome.response.code) if isinstance(outcome, Reply) else "begun"
            self._note(channel, command, done)
            return outcome

        return answer

    def _note(self, channel: Channel, command: Command, outcome: str) -> None:
        ext = command.ext()
        fields = " ".join(f"{name}={value}" for name, value in ext.items() if name not in UNTOLD)
        text = one_line(" ".join(filter(None, (fields, _names_in(command.body)))))
        self._log.info(
            "%s by %s at %s: %s (%s)",
            codes.request_name(command.code),
            one_line(ext.get(ACCESS_KEY, "")) or "nobody who signs",
            channel.remote,
            outcome,
            text,
        )


def administers(row: Row[Channel, Outcome]) -> bool:
    """Return whether a request code changes broker metadata other than by producing or consuming."""
    return row.kind is Kind.CHANGE and row.access not in CLIENTS


def _names_in(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=_Named)
    except (ValueError, RecursionError):
        return ""
    return " ".join(filter(None, (found.group_name, found.consumer_group, found.topic)))
