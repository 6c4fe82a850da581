"""`bolide config show`: the settings in force, and where each value comes from."""

from __future__ import annotations

from collections.abc import Callable
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
    """Show every setting, its value and its origin: flag, variable, file or default, in this order of precedence."""
    with boundary():
        import msgspec

        from bolide.node.settings.config import load_daemon, shown

        kind, kept = settings_of(daemon)
        loaded, _ = load_daemon(kind, given_settings(settings), None if conf is None else str(conf), kept)
        for line in loaded.warnings:
            output.note(f"warning: {line}")
        rows = []
        for field in msgspec.structs.fields(kind):
            origin = loaded.origins[field.encode_name]
            if not changed or origin != "default":
                value = getattr(loaded.options, field.name)
                rows.append((field.encode_name, shown(field.encode_name, value), origin))
        output.table(f"Settings of the {daemon}", ("Key", "Value", "Origin"), rows, as_json)


def settings_of(daemon: str) -> tuple[Any, Callable[[Any], str]]:
    """The struct of a daemon's settings, and the file that stores changes made while it runs."""
    if daemon == "broker":
        from bolide.broker.core.options import BrokerOptions
        from bolide.node.broker import kept_settings

        return BrokerOptions, kept_settings
    if daemon == "namesrv":
        from bolide.namesrv.options import NamesrvOptions
        from bolide.node.namesrv import kept_settings as kept_by_namesrv

        return NamesrvOptions, kept_by_namesrv
    output.fail(f"there is no daemon {daemon!r}: write broker or namesrv", output.USAGE)
