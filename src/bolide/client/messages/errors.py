"""What can go wrong for a client, beside `bolide.errors`.

An answer with a code other than success becomes `ResponseError`; its ``code``, ``retriable`` and ``refresh_route`` are
set on the instance, since one class serves all codes. Which codes are worth another try is the producer's rule of
RocketMQ 5.5.0 (DefaultMQProducer.retryResponseCodes, with SYSTEM_BUSY and GO_AWAY).
"""

from __future__ import annotations

from typing import Final, NoReturn

from bolide.client.messages.advice import advice, first_line
from bolide.errors import ArgumentError, BolideError, LocalError, PeerError
from bolide.remoting import codes, unsupported

STALE_ROUTE_CODES: Final = frozenset(
    {codes.TOPIC_NOT_EXIST, codes.NO_PERMISSION, codes.GO_AWAY, codes.SERVICE_NOT_AVAILABLE}
)
"""A broker that became a slave answers SERVICE_NOT_AVAILABLE in an acting set, else SYSTEM_BUSY. That may also be too
much to do, so a producer looks again less and less often, and keeps its route until then (`producing/sending.py`)."""


RETRIABLE_CODES: Final = codes.RETRIED_CODES - {codes.TOPIC_NOT_EXIST}
"""Without the topic that does not exist: a producer tries another broker for it, but no retry of a call creates it."""

REFUSED_CODES: Final = frozenset(
    {codes.NO_PERMISSION, codes.SUBSCRIPTION_PARSE_FAILED, codes.SUBSCRIPTION_GROUP_NOT_EXIST}
)
"""Answers to a consumer that stay the same until somebody changes a permission, the expression or the group."""


class ResponseError(PeerError):
    """A name server or broker refused a request. `code` is the response code, `remark` what it said."""

    remark: str = ""

    def __init__(self, message: str, code: int = codes.SYSTEM_ERROR, remark: str = "") -> None:
        super().__init__(message)
        # Instance values over the class attributes, which cannot say it for every code; through vars() so that
        # pickle carries them and the class attributes stay constants to everyone else.
        vars(self).update(
            code=code,
            remark=remark,
            retriable=code in RETRIABLE_CODES,
            refresh_route=code in STALE_ROUTE_CODES,
        )


class TopicNotFound(ResponseError):
    """No broker serves the topic, and none may create it. Not retriable: somebody has to create the topic."""

    def __init__(self, message: str, code: int = codes.TOPIC_NOT_EXIST, remark: str = "") -> None:
        super().__init__(message, code, remark)


class DamagedMessage(ResponseError):
    """A response contains a message that does not match its CRC. The client never delivers it."""


class SendFailed(LocalError):
    """A message could not be sent at any of the tries; the cause is the last try's error."""

    retriable = True


class TooFast(LocalError):
    """More messages are in flight than allowed: wait for some of their futures, or await `send` instead."""

    retriable = True


class MessageRefused(ArgumentError):
    """The message cannot be sent as it is: no body, too large, a reserved property, an invalid topic or tag."""


class ClientStateError(BolideError, RuntimeError):
    """The client is not started, is closed, or its group is in use in this process. Also a `RuntimeError`."""


class ClientForked(BolideError, RuntimeError):
    """The client was started in another process: start a new one after the fork, or fork before the start."""


class NoQueue(LocalError):
    """The topic has no queue that can serve the request now."""

    retriable = True
    refresh_route = True


def response_error(code: int, remark: str | None, asked: str, address: str) -> ResponseError:
    """The error for an answer with `code`: `asked` names the request, `address` who answered."""
    name = codes.response_name(code)
    said = remark or "it gave no reason"
    what_to_do = advice(said)
    if what_to_do:
        what_to_do = f": {what_to_do}"
    kind = TopicNotFound if code == codes.TOPIC_NOT_EXIST else ResponseError
    return kind(f"{address} answered {asked} with {name} ({code}): {first_line(said)}{what_to_do}", code, said)


def refusal_of(error: BaseException) -> ResponseError | None:
    """Return the error if a consumer gets it until somebody changes something, else None."""
    if isinstance(error, DamagedMessage):
        return error
    return error if isinstance(error, ResponseError) and error.code in REFUSED_CODES else None


def raise_again(error: ResponseError) -> NoReturn:
    """Raise a kept error as a new object, whose traceback does not grow each time."""
    code = codes.SYSTEM_ERROR if error.code is None else error.code
    raise type(error)(str(error), code, error.remark) from error


def worth_retry(error: BolideError) -> bool:
    """Whether another broker may take what this one did not (RocketMQ's rule for producers)."""
    if isinstance(error, ResponseError):
        return error.code in codes.RETRIED_CODES
    return error.retriable or error.closes_connection


def not_a_name_server(error: ResponseError, address: str) -> ResponseError:
    """The error of a name server's answer; or, where a peer does not know its requests, that it is not one."""
    if error.code != codes.REQUEST_CODE_NOT_SUPPORTED:
        return error
    return ResponseError(unsupported.not_a_name_server(address, error.remark), error.code, error.remark)
