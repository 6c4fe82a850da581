"""`bolide broker`, `controller`, `standalone`: run a daemon in this process until a signal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

from bolide.cli.daemons.setting_keys import setting_keys
from bolide.cli.terminal.output import boundary
from bolide.errors import ConfigError

Conf: Final = typer.Option(None, "-c", "--config", help="Java's .conf file.", exists=True, dir_okay=False)
Listen: Final = typer.Option(None, help="HOST:PORT to serve on; port 0 picks a free one.")
Settings: Final = typer.Option(
    None,
    "--set",
    help="Any setting, as key=value (config show --describe lists them); may be repeated.",
    autocompletion=setting_keys,
)


def attach(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(broker)
    app.command()(controller)
    app.command()(standalone)


def broker(
    conf: Path | None = Conf,
    names: str | None = typer.Option(None, "-n", "--namesrv", help="Name servers, host:port;host:port."),
    listen: str | None = Listen,
    store: Path | None = typer.Option(None, help="Store folder."),
    settings: list[str] | None = Settings,
) -> None:
    """Run a broker."""
    from bolide.node.broker_process import run_broker

    with boundary():
        flags = {**listen_flags(listen), **given_settings(settings)}
        if names is not None:
            flags["namesrvAddr"] = names
        if store is not None:
            flags["storePathRootDir"] = str(store)
        raise typer.Exit(run_broker(flags, None if conf is None else str(conf)))


def controller(
    conf: Path | None = Conf,
    listen: str | None = Listen,
    store: str | None = typer.Option(
        None, help="file:PATH, on this machine alone and so not highly available, or etcd:URL,URL."
    ),
    settings: list[str] | None = Settings,
) -> None:
    """Run a controller, which elects the masters of sets of replicas."""
    from bolide.node.controller.node import run_controller

    with boundary():
        flags = {**listen_flags(listen), **given_settings(settings)}
        if store is not None:
            flags["controllerStore"] = store
        raise typer.Exit(run_controller(flags, None if conf is None else str(conf)))


def standalone(
    store: Path = typer.Option(Path("~/bolide"), help="Store folder, or the folder of the stores of several brokers."),
    namesrv_port: int = typer.Option(9876, min=0, max=65535, help="Port of the name server; 0 picks a free one."),
    broker_port: int = typer.Option(10911, min=0, max=65535, help="Port of the first broker; 0 picks a free one."),
    brokers: int = typer.Option(1, min=1, help="Number of brokers; each further one listens 10 ports above."),
    host: str = typer.Option("127.0.0.1", help="Address to bind to."),
    replicas: int = typer.Option(1, min=1, help="Brokers of each name, under a controller next to the name server."),
    settings: list[str] | None = Settings,
) -> None:
    """Run a name server and brokers on this machine, supervised, until a signal; prints `ready` once they serve."""
    from bolide.node.standalone import run_standalone

    with boundary():
        flags = given_settings(settings)
        raise typer.Exit(run_standalone(str(store), namesrv_port, broker_port, brokers, host, flags, replicas))


def listen_flags(listen: str | None) -> dict[str, object]:
    """Return bindAddress and listenPort of HOST:PORT. Raises `ConfigError` if the text is invalid."""
    if listen is None:
        return {}
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen {listen} is not HOST:PORT; write for example 127.0.0.1:10911")
    return {"bindAddress": host.strip("[]"), "listenPort": int(port)}


def given_settings(
    settings: list[str] | None, example: str = "--set flushDiskType=ASYNC_FLUSH"
) -> dict[str, object]:
    """Return key=value pairs. Raises `ConfigError` with `example` if a pair has no equals sign."""
    found: dict[str, object] = {}
    for text in settings or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"setting {text} is not key=value; write for example {example}")
        found[key.strip()] = value.strip()
    return found
