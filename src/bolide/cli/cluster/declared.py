"""`bolide cluster export` and `cluster apply`: topics, groups, users and policies as a file for version control."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import typer

from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Cluster, Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.errors import ConfigError

LONGEST: Final = 256 << 20
"""Maximum size of a file in bytes."""


class Form(StrEnum):
    """File formats."""

    JSON = "json"
    YAML = "yaml"


def attach(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(export)
    app.command()(apply)


def export(
    namesrv: str = Namesrv,
    cluster: str | None = Cluster,
    offsets: bool = typer.Option(False, "--offsets", help="Also the offsets of groups, which change all the time."),
    form: Form = typer.Option(Form.JSON, "--format", help="How it is written."),
) -> None:
    """Print topics, groups, users (without passwords) and policies of each broker, for cluster apply."""
    with boundary():
        from bolide.admin.declared import encode_declared, read_declared

        plain = encode_declared(call(namesrv, lambda admin: read_declared(admin, cluster=cluster, offsets=offsets)))
        if form is Form.YAML:
            print(_yaml().safe_dump(plain, sort_keys=True, allow_unicode=True), end="")
        else:
            output.print_json(plain)


def apply(
    file: Path = typer.Argument(..., help="What cluster export printed: .yaml and .yml are YAML, others JSON."),
    namesrv: str = Namesrv,
    yes: bool = typer.Option(False, "--yes", help="Carry out the plan; without it, only show the plan."),
    prune: bool = typer.Option(False, "--prune", help="Also delete everything that the file does not declare."),
    as_json: bool = JsonFlag,
) -> None:
    """Make brokers match a file: prints the plan, and carries it out only with --yes."""
    with boundary():
        from bolide.admin.declared import decode_declared, read_declared
        from bolide.admin.plan import carry_out, plan

        wanted = decode_declared(_read(file), str(file))
        offsets = any(each.offsets is not None for each in wanted.brokers.values())
        found = call(namesrv, lambda admin: read_declared(admin, offsets=offsets))
        steps = plan(wanted, found, prune=prune)
        rows = [(each.broker, each.action, each.what, each.name, each.changes) for each in steps]
        output.table("Plan", ("Broker", "Action", "What", "Name", "Settings"), rows, as_json)
        if not steps:
            output.note("nothing to do: the brokers have what the file says")
        elif not yes:
            output.note(f"{len(steps)} changes are planned; write --yes to carry them out")
        else:
            done = call(namesrv, lambda admin: carry_out(admin, steps, found, output.note))
            output.note(f"{done} changes are done")


def _read(file: Path) -> Any:
    """Return the content of a file. Raises `ConfigError` if it is too long, unreadable or invalid."""
    with file.open("rb") as opened:
        data = opened.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise ConfigError(f"{file} has more than {LONGEST} bytes")
    try:
        if file.suffix not in (".yaml", ".yml"):
            return json.loads(data)
        yaml = _yaml()
        try:
            return yaml.safe_load(data)
        except yaml.YAMLError as error:
            raise ConfigError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError("YAML needs PyYAML: pip install pyyaml, or use JSON") from None
    return yaml
