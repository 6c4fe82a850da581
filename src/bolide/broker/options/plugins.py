"""Settings that name plug-ins."""

from __future__ import annotations

from typing import Annotated, Final

from bolide.declaration import OURS, DeclaredOptions, Section

PLUGINS: Final = Section("Plug-ins")


class PluginOptions(DeclaredOptions, frozen=True, kw_only=True):
    """The plug-ins that a broker loads."""

    dispatchers: Annotated[
        str, PLUGINS("Dispatchers, separated by `;`: each gets every record of the log.", java=OURS)
    ] = ""
    broker_hooks: Annotated[
        str, PLUGINS("Hooks, separated by `;`, around requests, sends and pulls, in this order.", java=OURS)
    ] = ""
