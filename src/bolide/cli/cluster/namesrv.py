"""`bolide namesrv`: run a name server; settings and key-value table of running name servers."""

from __future__ import annotations

from pathlib import Path

import typer

from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.daemons.serve import Conf, Listen, Settings, given_settings, listen_flags
from bolide.cli.daemons.setting_keys import setting_keys
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched

app = typer.Typer()
kv = typer.Typer()
config = typer.Typer()
app.add_typer(kv, name="kv", help="The key-value table of the name servers.", no_args_is_help=True)
app.add_typer(config, name="config", help="The settings of running name servers.", no_args_is_help=True)

Namespace = typer.Argument(..., help="Namespace of the table, such as ORDER_TOPIC_CONFIG.")
Key = typer.Argument(..., help="Key in the namespace.")


@app.callback(invoke_without_command=True)
def namesrv(
    asked: typer.Context,
    conf: Path | None = Conf,
    listen: str | None = Listen,
    settings: list[str] | None = Settings,
) -> None:
    """Run a name server; with a command, query or change running name servers."""
    if asked.invoked_subcommand is not None:
        if conf is not None or listen is not None or settings:
            with boundary():
                output.fail(
                    f"-c, --listen and --set are to run a name server: leave them out of {asked.invoked_subcommand}",
                    output.USAGE,
                )
        return
    from bolide.node.namesrv import run_namesrv

    with boundary():
        flags = {**listen_flags(listen), **given_settings(settings)}
        raise typer.Exit(run_namesrv(flags, None if conf is None else str(conf)))


@kv.command("list")
@watched
def list_keys(namespace: str = Namespace, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """List the keys and values of a namespace."""
    with boundary():
        found = call(namesrv, lambda admin: admin.list_kv(namespace))
        output.table(f"Namespace {namespace}", ("Key", "Value"), sorted(found.items()), as_json)


@kv.command()
def get(namespace: str = Namespace, key: str = Key, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Print one value; fails if the key does not exist."""
    with boundary():
        value = call(namesrv, lambda admin: admin.get_kv(namespace, key))
        if value is None:
            output.fail(f"there is no key {key} in namespace {namespace} of the name servers")
        if as_json:
            output.print_json({"namespace": namespace, "key": key, "value": value})
        else:
            print(output.printable(value))


@kv.command()
def put(
    namespace: str = Namespace,
    key: str = Key,
    value: str = typer.Argument(..., help="The value; an existing one is replaced."),
    namesrv: str = Namesrv,
) -> None:
    """Set a value at every name server."""
    with boundary():
        call(namesrv, lambda admin: admin.put_kv(namespace, key, value))
        output.note(f"key {key} of namespace {namespace} is set at every name server")


@kv.command()
def delete(
    namespace: str = Namespace,
    key: str = Key,
    namesrv: str = Namesrv,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete a key from every name server."""
    if not yes:
        typer.confirm(f"Delete key {key} of namespace {namespace}?", abort=True)
    with boundary():
        known = call(namesrv, lambda admin: admin.get_kv(namespace, key)) is not None
        # Continue if the first name server lacks the key: others may have it, as they do not replicate to each other.
        call(namesrv, lambda admin: admin.delete_kv(namespace, key))
        if not known:
            output.fail(f"there is no key {key} in namespace {namespace} of the name servers")
        output.note(f"key {key} of namespace {namespace} is deleted from every name server")


@config.command("show")
@watched
def show_settings(namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the settings of each name server."""
    with boundary():
        found = call(namesrv, lambda admin: admin.namesrv_config())
        if as_json:
            output.print_json(found)
            return
        for address, settings in sorted(found.items()):
            output.pairs(f"Settings of {address}", dict(sorted(settings.items())), False)


@config.command("set")
def set_settings(
    settings: list[str] = typer.Argument(
        ..., metavar="KEY=VALUE", help="Settings, as key=value.", autocompletion=setting_keys
    ),
    namesrv: str = Namesrv,
) -> None:
    """Change settings of every name server while it runs."""
    with boundary():
        changes = {key: str(value) for key, value in given_settings(settings, "orderMessageEnable=true").items()}
        call(namesrv, lambda admin: admin.update_namesrv_config(changes))
        changed = ", ".join(f"{key}={value}" for key, value in changes.items())
        output.note(f"every name server has {output.printable(changed)}")
