"""The servers that have settings, and their keys, also for the completion of a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bolide.cli.terminal import output


def daemon_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the kinds of servers that have settings, for typer's `autocompletion`."""
    return ["broker", "controller", "namesrv"]


def setting_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of the settings of the command's server, followed by "=", for typer's `autocompletion`. Commands
    for running servers get only settings that can be changed while the server runs."""
    from bolide.declaration import settings_of

    words = ctx.command_path.split()
    daemon = next((word for word in ("namesrv", "controller") if word in words), "broker")
    if "daemon" in ctx.params:
        daemon = next(iter(ctx.args), ctx.params["daemon"])  # behind an option without a value, it is not parsed
    if daemon not in daemon_names(ctx, ""):
        return []
    kind, _ = daemon_options(daemon)
    running = words[-2:] in (["cluster", "config"], ["config", "set"])
    return [f"{key}=" for key, setting in settings_of(kind).items() if setting.about.live or not running]


def daemon_options(daemon: str) -> tuple[Any, Callable[[Any], str]]:
    """Return the class of a daemon's settings, and the file that stores changes made while it runs."""
    if daemon == "broker":
        from bolide.broker.options.composed import BrokerOptions
        from bolide.node.broker_process import kept_settings

        return BrokerOptions, kept_settings
    if daemon == "namesrv":
        from bolide.namesrv.options import NamesrvOptions
        from bolide.node.namesrv import kept_settings as kept_by_namesrv

        return NamesrvOptions, kept_by_namesrv
    if daemon == "controller":
        from bolide.controller.options import ControllerOptions
        from bolide.node.controller.node import kept_settings as kept_by_controller

        return ControllerOptions, kept_by_controller
    output.fail(f"there is no daemon {daemon!r}: write broker, namesrv or controller", output.USAGE)
