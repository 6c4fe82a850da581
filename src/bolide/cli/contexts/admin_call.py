"""One administrative call from the command line: connects, calls and closes."""

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
    """Call `ask` with an `Admin` of these name servers, and return its result."""
    from bolide.admin.client import Admin

    async def run() -> T:
        async with Admin(namesrv, **connection) as admin:
            return await ask(admin)

    return asyncio.run(run())


async def must_exist(admin: Admin, group: str) -> None:
    """End the program with an error unless a broker has settings or an offset of the group."""
    if group not in await admin.groups() and not (await admin.consumer_progress(group)).queues:
        output.fail(f"there is no group {group}: no broker knows it")
