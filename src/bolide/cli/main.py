"""The entry point of `bolide`: its verbs and the nouns that hold more of them."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Final

import typer

from bolide.cli import output
from bolide.cli.output import JsonFlag, boundary

app = typer.Typer(
    name="bolide",
    help="A message broker that speaks Apache RocketMQ's protocol and keeps its files, with a pipeline on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

NOUNS: Final = {
    "topic": "Create, change, list and inspect topics.",
    "group": "Consumer groups: settings, progress, who is connected.",
    "offset": "Offsets of groups and queues.",
    "message": "Find and show messages.",
    "cluster": "Brokers of a cluster.",
    "store": "Look into a store folder, with no broker running.",
    "pipeline": "Jobs over stores and clusters, on Spark.",
    "spark": "What a Spark cluster needs to run Bolide.",
    "config": "Settings of broker and name server.",
    "bench": "Measure.",
}
ROOMS: Final = ("pipeline", "bench")
"""Nouns whose verbs are a room of files; the others are one file."""
VERBS: Final = ("serve", "produce", "consume", "doctor")


def load() -> typer.Typer:
    """Attach what the other files of this room define."""
    if not app.registered_groups:
        for noun, text in NOUNS.items():
            module = f"bolide.cli.{noun}.verbs" if noun in ROOMS else f"bolide.cli.{noun}"
            app.add_typer(import_module(module).app, name=noun, help=text, no_args_is_help=True)
        for name in VERBS:
            import_module(f"bolide.cli.{name}").attach(app)
    return app


@app.command()
def version(as_json: bool = JsonFlag) -> None:
    """Show the version, which modules run compiled, and the plug-ins that are installed."""
    from bolide import _impl, plugins
    from bolide.version import VERSION

    modules = _impl.compiled_modules()
    added = [(plugin.kind.noun, plugin.name, plugin.package) for plugin in plugins.installed()]
    if as_json:
        named = [dict(zip(("kind", "name", "package"), plugin, strict=True)) for plugin in added]
        output.print_json({"version": VERSION, "rocketmq": "5.5.0", "compiled": modules, "plugins": named})
        return
    print(f"bolide {VERSION}, announces RocketMQ 5.5.0, Python {sys.version.split()[0]}")
    print(_impl.describe())
    for module in modules:
        print(f"  {module}")
    for kind, name, package in added:
        print(f"{kind} {output.printable(name)} of {output.printable(package)}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    ctrl_c = signal.getsignal(signal.SIGINT)  # a loop, or Spark, has its own way to end what runs
    if callable(ctrl_c):
        ctrl_c(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    # A daemon takes the signal over. Whatever else runs ends as by Ctrl-C: with what it made cleared away or kept.
    signal.signal(signal.SIGTERM, _interrupt)
    with boundary():
        load()()
