"""Decodes the body of requests that create a list of topics or groups, ``{"topicConfigList": [{...}, ...]}``."""

from __future__ import annotations

from typing import Any

from bolide.broker.refused import Refused
from bolide.broker.tables.request_limits import MAX_CONFIGS, check_body, check_listed
from bolide.remoting.codes import SYSTEM_ERROR, request_name
from bolide.remoting.command import Command
from bolide.remoting.json import MAX_TEXT, parse_long


def listed_configs(command: Command, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name`. Other elements are ignored, as by Java's reader.

    Raises `Refused` if the list is missing or too long.
    """
    check_body(command)
    body: Any = parse_long(command.body, MAX_TEXT) if command.body else None
    listed: Any = body.get(name) if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise Refused(SYSTEM_ERROR, f"{request_name(command.code)} needs a body with {name}")
    check_listed(command, len(listed), MAX_CONFIGS, "entries")
    return [fields for fields in listed if isinstance(fields, dict)]
