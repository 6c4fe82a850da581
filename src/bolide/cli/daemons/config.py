"""`bolide config show`: the effective settings and the origin of each value."""

from __future__ import annotations

from pathlib import Path

import typer

from bolide.cli.daemons.serve import Conf, Settings, given_settings
from bolide.cli.daemons.setting_keys import daemon_names, daemon_options
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary

app = typer.Typer()


@app.callback()
def config() -> None:
    """Settings of broker, name server and controller."""


@app.command()
def show(
    daemon: str = typer.Argument("broker", help="broker, namesrv or controller.", autocompletion=daemon_names),
    conf: Path | None = Conf,
    settings: list[str] | None = Settings,
    changed: bool = typer.Option(False, "--changed", help="Only settings that are not defaults."),
    describe: bool = typer.Option(
        False,
        "--describe",
        help=("Also print the description and range of each, and whether it can change while running."),
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show every setting, its value and its origin: flag, variable, file or default, in this order of precedence."""
    with boundary():
        from bolide.declaration import settings_of, values_in
        from bolide.node.settings.config import load_daemon, shown

        kind, kept = daemon_options(daemon)
        loaded, _ = load_daemon(kind, given_settings(settings), None if conf is None else str(conf), kept)
        for line in loaded.warnings:
            output.note(f"warning: {line}")
        rows: list[tuple[str, ...]] = []
        values = values_in(loaded.options)
        for key, setting in settings_of(kind).items():
            origin = loaded.origins[key]
            if changed and origin == "default":
                continue
            row = (key, shown(key, values[key]), origin)
            about = setting.about
            more = (setting.range, "live" if about.live else "restart", about.text) if describe else ()
            rows.append((*row, *more))
        columns = ("Key", "Value", "Origin", *(("Range", "Changed", "What it does") if describe else ()))
        output.table(f"Settings of the {daemon}", columns, rows, as_json)
