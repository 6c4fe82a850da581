"""Options that several verbs share, so that they read alike everywhere."""

from __future__ import annotations

from typing import Final

import typer

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"

Namesrv: Final = typer.Option(
    DEFAULT_NAMESRV, "--namesrv", "-n", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port."
)

Master: Final = typer.Option("local[*]", help="Spark's master; on a cluster it must see paths as they are given here.")
