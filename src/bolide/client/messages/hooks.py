"""RPC hooks: called before each request is sent and after each response, for example to sign requests.

The signature is the one of RocketMQ's AclClientRPCHook (`bolide.remoting.signature`). It does not cover fields that are
added after it, so a signing hook must be the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

from bolide.client.messages.checked import checked_constructor
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.signature import sign_request


@dataclass(slots=True)
class RpcCall:
    """One request before it is sent: hooks may add to `ext`, the fields of its header."""

    address: str
    code: int
    ext: dict[str, str]
    body: bytes
    oneway: bool


class RpcHook(Protocol):
    """Interface of a hook. Both methods run on the event loop and must not block."""

    def before(self, call: RpcCall) -> None:
        """Called with each request before it is encoded; may raise to reject it."""

    def after(self, call: RpcCall, answer: Command) -> None:
        """Called with each response; not called for oneway requests, nor if there is no response."""


_UNIT_FIELDS: Final = {
    codes.SEND_MESSAGE: "unitMode",
    codes.SEND_MESSAGE_V2: "k",
    codes.SEND_BATCH_MESSAGE: "k",
    codes.CONSUMER_SEND_MSG_BACK: "unitMode",
}


class UnitHook(Struct, frozen=True):
    """Marks sent and returned messages as messages of a unit; topics that they create are marked as the unit's."""

    def before(self, call: RpcCall) -> None:
        """Set the field if the request has one."""
        name = _UNIT_FIELDS.get(call.code)
        if name is not None:
            call.ext[name] = "true"

    def after(self, call: RpcCall, answer: Command) -> None:
        """Do nothing."""


@checked_constructor
@dataclass(frozen=True, slots=True)
class AclHook:
    """Signs every request with an access key, as brokers with ACL require."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def before(self, call: RpcCall) -> None:
        """Add AccessKey, SecurityToken and Signature to the fields."""
        sign_request(
            call.ext, call.body, self.access_key, self.secret_key, self.security_token, code=call.code
        )

    def after(self, call: RpcCall, answer: Command) -> None:
        """Do nothing."""


def of_requests(hooks: Iterable[RpcHook]) -> bool:
    """Return whether these hooks only concern the request, so that it may contain several messages. A hook of the user
    expects one message in a request of `send`."""
    return all(type(hook) in (AclHook, UnitHook) for hook in hooks)
