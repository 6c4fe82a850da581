"""Request codes that Bolide does not serve: RocketMQ's response to unknown codes, and the reason."""

from __future__ import annotations

from typing import Final

from bolide.remoting.codes import REQUEST_CODE_NOT_SUPPORTED
from bolide.remoting.command import Command, make_response

_FILES: Final = "users and permissions of 4.9 are in files: change plain_acl.yml, which the broker reloads"
_COLD: Final = "reads of old messages are not limited by group"
_POP: Final = "there is no POP consumption"
_LITE: Final = "there are no lite topics"
REASONS: Final[list[tuple[range, str]]] = [
    (range(50, 55), _FILES),
    (range(354, 355), "consume queues are files, not RocksDB"),
    (range(513, 514), "there are no static topics"),
    (range(902, 904), "each broker is a separate process"),
    (range(2001, 2004), _COLD),
    (range(2004, 2005), "the kernel controls the read-ahead of the log"),
    (range(200050, 200057), _POP),
    (range(200070, 200072), _LITE),
    (range(200073, 200080), _LITE),
    (range(200151, 200152), _POP),
]
"""Codes that RocketMQ's servers serve, and why Bolide does not."""


def why_unsupported(code: int) -> str:
    """Return why no server of Bolide serves this code, or "" if one does, or if the code is unknown."""
    return next((reason for codes, reason in REASONS if code in codes), "")


def not_a_name_server(address: str, remark: str | None) -> str:
    """Return the error text for a peer that rejects a name server's request with REQUEST_CODE_NOT_SUPPORTED and
    `remark`."""
    return (
        f"{address} is not a name server, it does not know the request: if it is a broker, give the address of its"
        f" name server, whose usual port is 9876 ({(remark or 'it gave no reason').strip()})"
    )


def unsupported(command: Command) -> Command:
    """Return the response to an unsupported request: RocketMQ's code and text, and the reason."""
    reason = why_unsupported(command.code)
    remark = f" request type {command.code} not supported"  # with RocketMQ's leading blank
    return make_response(command, REQUEST_CODE_NOT_SUPPORTED, f"{remark}: {reason}" if reason else remark)
