"""Options that several commands share."""

from __future__ import annotations

from typing import Final

import typer


def _in_force(given: str) -> str:
    """The name servers of the flag or, without it, those that Bolide's clients would use."""
    from bolide.cli.output import boundary
    from bolide.client.instance.name_servers import configured_namesrv

    with boundary():
        return ";".join(configured_namesrv(given))


Namesrv: Final = typer.Option(
    "",
    "--namesrv",
    "-n",
    callback=_in_force,
    show_default="variable BOLIDE_NAMESRV_ADDR, ROCKETMQ_NAMESRV_ADDR or NAMESRV_ADDR, then 127.0.0.1:9876",
    help="Name servers, host:port;host:port.",
)

Master: Final = typer.Option("local[*]", help="Spark's master; on a cluster the given paths must be valid there.")
