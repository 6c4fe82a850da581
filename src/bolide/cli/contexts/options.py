"""Options that several commands share."""

from __future__ import annotations

from typing import Final

import typer

from bolide.cli.contexts import completions


def _in_force(asked: typer.Context, given: str) -> str:
    """Return the name servers of the flag or a context, or the default of Bolide's clients."""
    if asked.resilient_parsing:  # a shell completes the command: it is not run
        return given
    from bolide.cli.contexts.context_file import addresses_in_force
    from bolide.cli.terminal.output import boundary
    from bolide.client.instance.name_servers import configured_namesrv

    with boundary():
        addresses, undo = addresses_in_force(given, asked.find_root().params.get("context") or "")
        asked.call_on_close(undo)
        return ";".join(configured_namesrv(addresses))


Namesrv: Final = typer.Option(
    "",
    "--namesrv",
    "-n",
    callback=_in_force,
    show_default="variable BOLIDE_NAMESRV_ADDR, ROCKETMQ_NAMESRV_ADDR or NAMESRV_ADDR, context, 127.0.0.1:9876",
    help="Name servers, host:port;host:port.",
)

Cluster: Final = typer.Option(None, "--cluster", help="Only this cluster.", autocompletion=completions.clusters)

Master: Final = typer.Option("local[*]", help="Spark's master; on a cluster the given paths must be valid there.")
