"""Error responses to pulls. A client reads the forbidden type of a NO_PERMISSION from its header."""

from __future__ import annotations

from typing import Final

from bolide.broker.core.outcome import Reply
from bolide.remoting.codes import NO_PERMISSION, SYSTEM_ERROR
from bolide.remoting.command import Command, make_response

# ForbiddenType: the missing permission, in the header of a response 16.
BY_BROKER: Final = 1
BY_GROUP: Final = 2
BY_TOPIC: Final = 3
BY_BROADCAST: Final = 4
BY_SUBSCRIPTION: Final = 5


def refuse(command: Command, code: int, remark: str) -> Reply:
    """Return an error response."""
    return Reply(make_response(command, code, remark))


def forbid(command: Command, forbidden_type: int, remark: str) -> Reply:
    """Return NO_PERMISSION (16) with the type of the missing permission."""
    return Reply(make_response(command, NO_PERMISSION, remark, {"forbiddenType": str(forbidden_type)}))


def no_expressions(command: Command, expression_type: str) -> Reply:
    """Return the error for an expression of this type if enablePropertyFilter is not set."""
    remark = f"The broker does not support consumer to filter message by {expression_type}"
    return refuse(command, SYSTEM_ERROR, remark)
