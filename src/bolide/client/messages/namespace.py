"""Namespaces: a prefix, ``instance%topic``, separates the topics and groups of several users of one cluster.

As in RocketMQ's NamespaceUtil, %RETRY% and %DLQ% stay in front, and system names have no namespace. The newer variant
(namespaceV2) leaves the names unchanged and adds the namespace to every request: `NamespaceHook`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from bolide.client.messages.arguments import check_text
from bolide.client.messages.checked import Allowed, checked_constructor
from bolide.client.messages.hooks import RpcCall
from bolide.errors import ArgumentError
from bolide.layout.names import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    PREDEFINED_GROUPS,
    RETRY_PREFIX,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_TOPIC_PREFIX,
    SYSTEM_TOPICS,
)
from bolide.remoting.command import Command

SEPARATOR: Final = "%"
_NAMESPACE: Final = re.compile(r"[a-zA-Z0-9_-]+")
_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX)
_SYSTEM: Final = SYSTEM_TOPICS | PREDEFINED_GROUPS


def check_namespace(namespace: str) -> str:
    """Return the namespace if it is valid or empty. Raises `ArgumentError`."""
    if check_text("namespace", namespace) and not _NAMESPACE.fullmatch(namespace):
        raise ArgumentError(
            f"namespace {namespace!r} is invalid, only letters, digits, - and _ are allowed", "namespace"
        )
    return namespace


NAMESPACE: Final = Allowed("letters, digits, `-` and `_`", lambda name, value: check_namespace(value))


def with_namespace(namespace: str, name: str) -> str:
    """Return the name of a topic or group with the namespace, as brokers store it."""
    if (
        not namespace
        or not name
        or name in _SYSTEM
        or name.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX, LMQ_PREFIX))
    ):
        return name
    prefix, rest = _parted(name)
    if rest.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{rest}"


def without_namespace(namespace: str, name: str) -> str:
    """Return the name of a topic or group without the namespace."""
    if not namespace or not name:
        return name
    prefix, rest = _parted(name)
    return prefix + rest.removeprefix(namespace + SEPARATOR)


def _parted(name: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


@checked_constructor
@dataclass(frozen=True, slots=True)
class NamespaceHook:
    """Adds the namespace to every request, for RocketMQ's proxy: Java's setNamespaceV2."""

    namespace: Annotated[str, NAMESPACE]

    def before(self, call: RpcCall) -> None:
        """Add the two fields."""
        call.ext["nsd"] = "true"
        call.ext["ns"] = self.namespace

    def after(self, call: RpcCall, answer: Command) -> None:
        """Do nothing."""
