"""`bolide context`: named clusters, with their addresses and credentials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bolide.cli.contexts import completions
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.secret import FromFile, FromStdin, given_secret
from bolide.errors import ArgumentError

if TYPE_CHECKING:
    from bolide.cli.contexts.context_file import Context, Contexts

app = typer.Typer()

Name = typer.Argument(..., help="Name of the context.")
Known = typer.Argument(..., help="Name of the context.", autocompletion=completions.contexts)
COLUMNS = ("Context", "In use", "Name servers", "User", "Password")


@app.command()
def add(
    name: str = Name,
    addresses: str = typer.Argument(..., metavar="NAMESRV", help="Name servers, host:port;host:port."),
    user: str = typer.Option(
        "", "--user", help="Access key of the user that signs requests. Prompts for the password."
    ),
    password_stdin: bool = FromStdin,
    password_file: Path | None = FromFile,
    use: bool = typer.Option(False, "--use", help="Also make it the current context."),
) -> None:
    """Add a context to the file of contexts, which only its owner can read."""
    with boundary():
        from bolide.cli.contexts.context_file import Context, place, read_contexts, write_contexts
        from bolide.client.instance.name_servers import configured_namesrv

        known = read_contexts()
        if name in known.contexts:
            output.fail(f"there is a context {name}: delete it first")
        if not name.isprintable() or not name.strip():
            raise ArgumentError(f"{name!r} is not a valid name of a context: use printable characters", "name")
        if not user and (password_stdin or password_file is not None):
            raise ArgumentError("a password requires a user: write --user as well", "user")
        servers = ";".join(configured_namesrv(addresses))
        password = given_secret("password", password_stdin, password_file) if user else ""
        known.contexts[name] = Context(servers, user, password)
        known.in_use = name if use else known.in_use
        write_contexts(known)
        output.note(f"context {name} is added to {place()}")


@app.command("list")
def list_contexts(as_json: bool = JsonFlag) -> None:
    """List contexts, without their passwords."""
    with boundary():
        from bolide.cli.contexts.context_file import read_contexts

        known = read_contexts()
        rows = [_row(known, name, each) for name, each in sorted(known.contexts.items())]
        output.table("Contexts", COLUMNS, rows, as_json)


@app.command()
def show(
    name: str | None = typer.Argument(
        None, help="Name of the context; without it the one in use.", autocompletion=completions.contexts
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show a context, without its password."""
    with boundary():
        from bolide.cli.contexts.context_file import named_by_environment, read_contexts

        known = read_contexts()
        if not (name or known.in_use):
            output.fail("no context is in use: run bolide context use NAME")
        chosen = name or known.in_use
        (shown,) = output.json_rows(COLUMNS, [_row(known, chosen, known.named(chosen))])
        output.pairs(f"Context {chosen}", shown, as_json)
        variable = named_by_environment()
        if known.in_use == chosen and variable:
            output.note(f"the variable {variable} is set, and counts instead unless a command has --context {chosen}")


@app.command()
def use(
    name: str | None = typer.Argument(None, help="Name of the context.", autocompletion=completions.contexts),
    none: bool = typer.Option(False, "--none", help="Use no context."),
) -> None:
    """Make a context current: commands use it unless an option or the environment specifies name servers."""
    with boundary():
        from bolide.cli.contexts.context_file import read_contexts, write_contexts

        if (name is None) != none:
            raise ArgumentError("give the name of a context, or --none", "name")
        known = read_contexts()
        if name is not None:
            known.named(name)
        known.in_use = name or ""
        write_contexts(known)
        output.note("no context is in use" if name is None else f"context {name} is in use")


@app.command()
def delete(name: str = Known) -> None:
    """Delete a context from the file; does not contact the cluster."""
    with boundary():
        from bolide.cli.contexts.context_file import read_contexts, write_contexts

        known = read_contexts()
        known.named(name)
        del known.contexts[name]
        known.in_use = "" if known.in_use == name else known.in_use
        write_contexts(known)
        output.note(f"context {name} is deleted")


def _row(known: Contexts, name: str, each: Context) -> tuple[object, ...]:
    return name, known.in_use == name, each.namesrv, each.user, "******" if each.password else ""
