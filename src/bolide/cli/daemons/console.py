"""`bolide console`: a cluster in a browser."""

from __future__ import annotations

from pathlib import Path

import typer

from bolide.cli.contexts.decoding import RegistryOption, registry_of
from bolide.cli.contexts.options import Namesrv
from bolide.cli.daemons.serve import listen_flags
from bolide.cli.terminal.output import boundary
from bolide.errors import ConfigError
from bolide.transport.trusted_proxies import TrustedProxies


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(console)


def console(
    names: str = Namesrv,
    listen: str = typer.Option("127.0.0.1:8090", help="HOST:PORT to serve on; port 0 picks a free one."),
    certificate: Path | None = typer.Option(
        None, help="PEM file with the certificate of the console; enables TLS.", exists=True
    ),
    key: Path | None = typer.Option(None, help="The certificate's key, a file in PEM.", exists=True),
    schemas: Path | None = typer.Option(
        None, help="Folder of schemas for bodies: TOPIC.avsc (Avro) or TOPIC.desc (Protobuf).", exists=True
    ),
    registry: str = RegistryOption,
    trusted_proxies: str = typer.Option(
        "", help="Addresses and networks, separated by commas, whose X-Forwarded-For contains the browser's address."
    ),
    without_login: bool = typer.Option(
        False, "--without-login", help="Serve other machines also where the cluster has no users to log in."
    ),
) -> None:
    """Show a cluster in a browser, and change it there; prints the address, and ends with Ctrl-C."""
    with boundary():
        try:
            from bolide.console.serve import Listening, run_console
        except ModuleNotFoundError as error:
            raise ConfigError(f"the console needs {error.name}: pip install 'bolide[server]'") from None

        place = listen_flags(listen)
        listening = Listening(
            str(place["bindAddress"]),
            int(str(place["listenPort"])),
            names,
            None if certificate is None else str(certificate),
            None if key is None else str(key),
            without_login,
            schemas,
            registry_of(registry),
            TrustedProxies(trusted_proxies, "--trusted-proxies"),
        )
        raise typer.Exit(run_console(listening))
