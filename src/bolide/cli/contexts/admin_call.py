"""One administrative call from the command line: connect, ask, close, with errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

from bolide.cli.terminal import output

if TYPE_CHECKING:
    from bolide.admin.client import Admin
    from bolide.client.instance.options import ConnectionOptions

T = TypeVar("T")


def call(namesrv: str, ask: Callable[[Admin], Awaitable[T]], **connection: Unpack[ConnectionOptions]) -> T:
    """What `ask` returns, given an `Admin` of these name servers."""
    from bolide.admin.client import Admin

    async def run() -> T:
        async with Admin(namesrv, **connection) as admin:
            return await ask(admin)

    return asyncio.run(run())


async def must_exist(admin: Admin, group: str) -> None:
    """Fail if no broker knows the group, by its settings or by an offset."""
    if group not in await admin.groups() and not (await admin.consumer_progress(group)).queues:
        output.fail(f"there is no group {group}: no broker knows it")
