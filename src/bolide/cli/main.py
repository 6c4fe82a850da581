"""The entry point of `bolide`: its commands and groups of commands."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from bolide.cli.completion import VARIABLE, complete
from bolide.cli.contexts import completions
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary


class Program(TyperGroup):
    """All commands. With --json, wrong usage is also reported as JSON."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the options before the command."""
        # A command line that cannot be parsed requests JSON by its words. A verb that is parsed then sets its option.
        words = args[: args.index("--")] if "--" in args else args
        output.errors_as_json("--json" in words)
        with output.usage_as_json():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command, and run it."""
        with output.usage_as_json():
            return super().invoke(ctx)


app = typer.Typer(
    name="bolide",
    cls=Program,
    help="A message broker with Apache RocketMQ's protocol and file formats, and data pipelines on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

NOUNS: Final = {
    "topic": ("topics.topic", "Create, change, list and inspect topics."),
    "group": ("groups.group", "Consumer groups: settings, progress, connected members."),
    "user": ("security.user", "Users of access control: create, change, list, show, delete."),
    "policy": ("security.policy", "Policies of users: create, change, list, show, delete."),
    "offset": ("groups.offset", "Offsets of groups and queues."),
    "message": ("messages.message", "Find, show, trace and recall messages."),
    "dead-letter": ("messages.dead_letter", "Dead letters of groups: list, show, resend."),
    "namesrv": ("cluster.namesrv", "Run a name server; settings and key-value table of running name servers."),
    "cluster": ("cluster.cluster", "Brokers of a cluster."),
    "context": ("contexts.context", "Named clusters, with addresses and credentials."),
    "store": ("store.store", "Store folders: inspect, verify, repair; scrub and copy the store of a running broker."),
    "pipeline": ("pipeline.verbs", "Jobs over stores and clusters, on Spark."),
    "spark": ("pipeline.spark", "Prepare a Spark cluster to run Bolide."),
    "config": ("daemons.config", "Settings of broker and name server."),
    "bench": ("bench.verbs", "Measure rates of a broker or of Spark."),
}
"""The module in this package that defines each noun's verbs, and its help."""
VERBS: Final = (
    *("daemons.serve", "messages.produce", "messages.consume", "daemons.console", "cluster.top", "daemons.doctor"),
    "completion",
)
"""Modules in this package that add verbs without a noun, in the order of the help."""


def load() -> typer.Typer:
    """Return the typer application with the commands of the other files of this package."""
    if not app.registered_groups:
        for noun, (module, text) in NOUNS.items():
            of_noun = import_module(f"bolide.cli.{module}").app
            # `bolide namesrv` without a verb is also a command: it runs a name server.
            alone = of_noun.registered_callback is not None
            app.add_typer(of_noun, name=noun, help=text, no_args_is_help=not alone)
        for module in VERBS:
            import_module(f"bolide.cli.{module}").attach(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from bolide.version import VERSION

        print(f"bolide {VERSION}")
        raise typer.Exit


@app.callback()
def bolide(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
    context: str = typer.Option(
        "",
        "--context",
        help="The context whose name servers and credentials are used; see bolide context.",
        autocompletion=completions.contexts,
    ),
) -> None:
    """A message broker with Apache RocketMQ's protocol and file formats, and data pipelines on Spark."""


VALUES: Final[dict[object, str]] = {str: "TEXT", list[str]: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}
"""Names of values in the help, by type."""


def command() -> TyperGroup:
    """Return all commands. The help shows flags without a type, and the names of values as words."""
    if os.environ.get("NO_COLOR"):
        vars(import_module("typer.rich_utils"))["COLOR_SYSTEM"] = None  # styles are escapes as well
    whole = typer.main.get_group(load())
    left: list[TyperCommand | TyperGroup] = [whole]
    while left:
        one = left.pop()
        if isinstance(one, TyperGroup):
            left += [each for each in one.commands.values() if isinstance(each, TyperCommand | TyperGroup)]
        for parameter in (*one.params, one.get_help_option(typer.Context(one))):
            if isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
            elif not isinstance(parameter, TyperOption | TyperArgument):
                continue
            elif parameter.metavar is None and (word := VALUES.get(parameter.type_descriptor.annotation)):
                if isinstance(parameter, TyperOption):
                    parameter.metavar = word
                else:
                    vars(parameter).update(display_type_rich=lambda ctx: "")
    return whole


@app.command()
def version(as_json: bool = JsonFlag) -> None:
    """Show the version, whether the hot modules are compiled, and the installed plug-ins."""
    from bolide import _impl, plugins
    from bolide.version import VERSION

    modules = _impl.compiled_modules()
    added = [(plugin.kind.noun, plugin.name, plugin.package) for plugin in plugins.installed()]
    if as_json:
        named = [dict(zip(("kind", "name", "package"), plugin, strict=True)) for plugin in added]
        output.print_json({"version": VERSION, "rocketmq": "5.5.0", "compiled": modules, "plugins": named})
        return
    print(f"bolide {VERSION}, compatible with RocketMQ 5.5.0, Python {sys.version.split()[0]}")
    print(_impl.describe())
    for kind, name, package in added:
        print(f"{kind} {output.printable(name)} of {output.printable(package)}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    ctrl_c = signal.getsignal(signal.SIGINT)  # an event loop or Spark may have its own handler
    if callable(ctrl_c):
        ctrl_c(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt


def main() -> None:
    """Run the command line. Errors become one sentence and an exit code."""
    # Daemons replace this handler. Other commands end as with Ctrl-C, and clean up.
    signal.signal(signal.SIGTERM, _interrupt)
    if VARIABLE in os.environ:
        complete(command)
    with boundary():
        command()()
