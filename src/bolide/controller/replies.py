"""Responses shared by several requests to a controller."""

from __future__ import annotations

from bolide.controller.decisions import SetDecision
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.command import Command, make_response


def answer_of(command: Command, decision: SetDecision) -> Command:
    """Return the response to a request for a decision."""
    ext = {} if decision.header is None else decision.header.to_ext()
    body = b"" if decision.body is None else encode_body(decision.body)
    return make_response(command, decision.code, decision.remark, ext=ext, body=body)


def not_leader(command: Command) -> Command:
    """Return the response of a controller that is not the leader."""
    return make_response(command, codes.CONTROLLER_NOT_LEADER, "The controller is not in leader state")
