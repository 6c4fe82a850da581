"""`bolide config show`: which settings are in force, and where each came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from bolide.cli import output
from bolide.cli.output import JsonFlag, boundary
from bolide.cli.serve import Conf, Settings, given_settings

app = typer.Typer()


@app.callback()
def config() -> None:
    """Settings of broker and name server."""


@app.command()
def show(
    daemon: str = typer.Argument("broker", help="broker or namesrv."),
    conf: Path | None = Conf,
    settings: list[str] | None = Settings,
    changed: bool = typer.Option(False, "--changed", help="Only settings that are not defaults."),
    as_json: bool = JsonFlag,
) -> None:
    """Show every setting, its value and its origin: flag, then variable, then file, then default."""
    with boundary():
        import msgspec

        from bolide.node.config import load_options, shown

        kind = options_of(daemon)
        loaded = load_options(kind, given_settings(settings), None if conf is None else str(conf))
        for line in loaded.warnings:
            output.note(f"warning: {line}")
        rows = []
        for field in msgspec.structs.fields(kind):
            origin = loaded.origins[field.encode_name]
            if not changed or origin != "default":
                value = getattr(loaded.options, field.name)
                rows.append((field.encode_name, shown(field.encode_name, value), origin))
        output.table(f"Settings of the {daemon}", ("Key", "Value", "Origin"), rows, as_json)


def options_of(daemon: str) -> Any:
    """The struct of a daemon's settings."""
    if daemon == "broker":
        from bolide.broker.options import BrokerOptions

        return BrokerOptions
    if daemon == "namesrv":
        from bolide.namesrv.options import NamesrvOptions

        return NamesrvOptions
    output.fail(f"there is no daemon {daemon!r}: write broker or namesrv", output.USAGE)
