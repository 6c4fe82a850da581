"""Errors of clients, in addition to `bolide.errors`.

A response with a code other than success becomes a `ResponseError`. Its ``code``, ``retriable`` and ``refresh_route``
are set on the instance, because one class serves all codes. As in the producer of RocketMQ 5.5.0, retriable codes are
DefaultMQProducer.retryResponseCodes, SYSTEM_BUSY and GO_AWAY.
"""

from __future__ import annotations

from typing import Final, NoReturn

from bolide.client.messages.advice import advice, first_line
from bolide.errors import ArgumentError, BolideError, LocalError, PeerError
from bolide.remoting import codes, unsupported

STALE_ROUTE_CODES: Final = frozenset(
    {codes.TOPIC_NOT_EXIST, codes.NO_PERMISSION, codes.GO_AWAY, codes.SERVICE_NOT_AVAILABLE}
)
"""Codes after which the route is refreshed. A broker that became a slave responds with SERVICE_NOT_AVAILABLE in an
acting set, otherwise with SYSTEM_BUSY. SYSTEM_BUSY is not in this set, because it may also mean overload. After it, a
producer requests the route less and less often, and uses its old route in the meantime (`producing/sending.py`)."""


RETRIABLE_CODES: Final = codes.RETRIED_CODES - {codes.TOPIC_NOT_EXIST}
"""Codes after which a call may be retried. TOPIC_NOT_EXIST is excluded: a producer tries another broker after it, but
retrying a call does not create the topic."""

REFUSED_CODES: Final = frozenset(
    {codes.NO_PERMISSION, codes.SUBSCRIPTION_PARSE_FAILED, codes.SUBSCRIPTION_GROUP_NOT_EXIST}
)
"""Responses to a consumer that stay the same until someone changes a permission, the expression or the group."""


class ResponseError(PeerError):
    """A name server or broker rejected a request. `code` is the response code, `remark` the peer's reason."""

    remark: str = ""

    def __init__(self, message: str, code: int = codes.SYSTEM_ERROR, remark: str = "") -> None:
        super().__init__(message)
        # Instance values hide the class attributes, which cannot hold a value per code. Set through vars(), so that
        # pickle includes them and the class attributes stay constants for type checkers.
        vars(self).update(
            code=code,
            remark=remark,
            retriable=code in RETRIABLE_CODES,
            refresh_route=code in STALE_ROUTE_CODES,
        )


class TopicNotFound(ResponseError):
    """No broker serves the topic, and it cannot be created automatically.
    Not retriable: the topic must be created first."""

    def __init__(self, message: str, code: int = codes.TOPIC_NOT_EXIST, remark: str = "") -> None:
        super().__init__(message, code, remark)


class DamagedMessage(ResponseError):
    """A response contains a message that does not match its CRC. The client never delivers it."""


class SendFailed(LocalError):
    """All tries to send a message failed; the cause is the error of the last try."""

    retriable = True


class TooFast(LocalError):
    """Too many messages are in flight: wait for some of their futures, or await `send` instead."""

    retriable = True


class MessageRefused(ArgumentError):
    """The message is not valid: it has no body, is too large, or has a reserved property, an invalid topic or tag."""


class ClientStateError(BolideError, RuntimeError):
    """The client is not started or is closed, or its group is in use in this process. Also a `RuntimeError`."""


class ClientForked(BolideError, RuntimeError):
    """The client was started in another process: start a new one after the fork, or fork before the start."""


class NoQueue(LocalError):
    """No queue of the topic can serve the request now."""

    retriable = True
    refresh_route = True


def response_error(code: int, remark: str | None, asked: str, address: str) -> ResponseError:
    """Return the error for a response with `code`. `asked` names the request, `address` the peer that responded."""
    name = codes.response_name(code)
    said = remark or "it gave no reason"
    what_to_do = advice(said)
    if what_to_do:
        what_to_do = f": {what_to_do}"
    kind = TopicNotFound if code == codes.TOPIC_NOT_EXIST else ResponseError
    return kind(f"{address} answered {asked} with {name} ({code}): {first_line(said)}{what_to_do}", code, said)


def refusal_of(error: BaseException) -> ResponseError | None:
    """Return the error if the broker repeats it until someone fixes its cause, otherwise None."""
    if isinstance(error, DamagedMessage):
        return error
    return error if isinstance(error, ResponseError) and error.code in REFUSED_CODES else None


def raise_again(error: ResponseError) -> NoReturn:
    """Raise a copy of a stored error, so that its traceback does not grow each time."""
    code = codes.SYSTEM_ERROR if error.code is None else error.code
    raise type(error)(str(error), code, error.remark) from error


def worth_retry(error: BolideError) -> bool:
    """Return whether a producer should try another broker after this error (RocketMQ's rule)."""
    if isinstance(error, ResponseError):
        return error.code in codes.RETRIED_CODES
    return error.retriable or error.closes_connection


def not_a_name_server(error: ResponseError, address: str) -> ResponseError:
    """Return the error, or if the peer does not support the request, an error saying that it is not a name server."""
    if error.code != codes.REQUEST_CODE_NOT_SUPPORTED:
        return error
    return ResponseError(unsupported.not_a_name_server(address, error.remark), error.code, error.remark)
