"""Names that a shell completes: topics, groups, brokers, clusters and contexts.

The functions are for typer's `autocompletion`. They return no names if a look-up fails or exceeds `limit`.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from bolide.errors import BolideError
from bolide.layout.names import DLQ_PREFIX, RETRY_PREFIX, is_predefined_group

if TYPE_CHECKING:
    from bolide.admin.client import Admin

LIMIT_S: Final = 1.0
"""Maximum duration of a look-up in seconds, because a user waits at the prompt."""
LIMIT_VARIABLE: Final = "BOLIDE_COMPLETION_LIMIT"
"""Environment variable with another maximum, for distant clusters."""
SAFE: Final = re.compile(r"[A-Za-z0-9_%.@-]+", re.ASCII)
"""Names without a meaning in shells. Servers send the names, and shells evaluate completions."""


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return topics, or all topics including internal ones, retries and dead letters if no other starts with the
    text."""
    return _topics(ctx, incomplete)


def topic_lists(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return topics for the last item of a list with commas."""
    return _in_list(incomplete, lambda last: _topics(ctx, last))


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return consumer groups, without internal ones."""
    return _groups(ctx)


def group_lists(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return consumer groups for the last item of a list with commas."""
    return _in_list(incomplete, lambda last: _groups(ctx))


def groups_with_dead_letters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups that have a dead letter topic."""
    found = _looked_up(ctx, lambda admin: admin.topics(system=True))
    return [topic.removeprefix(DLQ_PREFIX) for topic in found if topic.startswith(DLQ_PREFIX)]


def brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of brokers, which are also those of broker sets."""

    async def ask(admin: Admin) -> Iterable[str]:
        return (await admin.cluster_info()).broker_addr_table

    return _looked_up(ctx, ask)


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of clusters."""

    async def ask(admin: Admin) -> Iterable[str]:
        return (await admin.cluster_info()).cluster_addr_table

    return _looked_up(ctx, ask)


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of contexts, from their file."""
    from bolide.cli.contexts.context_file import read_contexts

    try:
        return _safe(read_contexts().contexts)
    except (BolideError, OSError):
        return []


def _topics(ctx: typer.Context, incomplete: str) -> list[str]:
    async def ask(admin: Admin) -> Iterable[str]:
        users = [topic for topic in await admin.topics() if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))]
        if not incomplete or any(topic.startswith(incomplete) for topic in users):
            return users
        return await admin.topics(system=True)

    return _looked_up(ctx, ask)


def _groups(ctx: typer.Context) -> list[str]:
    async def ask(admin: Admin) -> Iterable[str]:
        return [group for group in await admin.groups() if not is_predefined_group(group)]

    return _looked_up(ctx, ask)


def _in_list(incomplete: str, names: Callable[[str], list[str]]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in names(last)]


def _looked_up(ctx: typer.Context, ask: Callable[[Admin], Awaitable[Iterable[str]]]) -> list[str]:
    """Return the result of `ask`, sorted, or [] after any failure. Uses the name servers of the command line."""
    from bolide.admin.client import Admin
    from bolide.cli.contexts.context_file import addresses_in_force
    from bolide.client.instance.name_servers import configured_namesrv

    async def run(addresses: str) -> Iterable[str]:
        async with Admin(addresses, timeout=limit()) as admin:
            return await ask(admin)

    given = ctx.params.get("namesrv") or ctx.params.get("names") or ""
    try:
        addresses, undo = addresses_in_force(given, ctx.find_root().params.get("context") or "")
        try:
            return _safe(_within(limit(), run(";".join(configured_namesrv(addresses)))))
        finally:
            undo()
    except (BolideError, OSError):
        return []


def limit() -> float:
    """Return the maximum duration of a look-up in seconds."""
    try:
        given = float(os.environ.get(LIMIT_VARIABLE, ""))
    except ValueError:
        return LIMIT_S
    return given if 0 < given < math.inf else LIMIT_S


def _within(seconds: float, work: Coroutine[object, object, Iterable[str]]) -> Iterable[str]:
    """Return the result of `work`, or [] if it fails or does not end in time."""
    found: list[str] = []

    def run() -> None:
        with suppress(BolideError, OSError):  # a TimeoutError is an OSError
            found.extend(asyncio.run(asyncio.wait_for(work, seconds)))

    # A separate thread: the look-up of a host name cannot be cancelled, and an event loop waits for it when it closes.
    thread = threading.Thread(target=run, name="completion", daemon=True)
    thread.start()
    thread.join(seconds * 1.5)
    return list(found)


def _safe(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if SAFE.fullmatch(name))
