"""RPC hooks: called before each request leaves and after each answer comes; signing is one of them.

The signature is that of RocketMQ's AclClientRPCHook (`bolide.remoting.signature`): what is added to the fields after
it is not covered, so a signing hook belongs last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from bolide.remoting.command import Command
from bolide.remoting.signature import sign_request


@dataclass(slots=True)
class Call:
    """One request about to leave: hooks may add to `ext`, the header's fields."""

    address: str
    code: int
    ext: dict[str, str]
    body: bytes
    oneway: bool


class RpcHook(Protocol):
    """What a hook offers. Both methods run on the event loop and must not block."""

    def before(self, call: Call) -> None:
        """Called with each request before it is encoded; may raise to refuse it."""

    def after(self, call: Call, answer: Command) -> None:
        """Called with each answer; not called for oneway requests, nor when no answer came."""


@dataclass(frozen=True, slots=True)
class AclHook:
    """Signs every request with an access key, as brokers with ACL enabled demand."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def before(self, call: Call) -> None:
        """Add AccessKey, SecurityToken and Signature to the fields."""
        sign_request(call.ext, call.body, self.access_key, self.secret_key, self.security_token)

    def after(self, call: Call, answer: Command) -> None:
        """Nothing to do."""
