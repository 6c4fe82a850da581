"""`bolide completion`: scripts that make a shell complete commands and options."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final

import typer

VARIABLE: Final = "_BOLIDE_COMPLETE"
"""Environment variable that a shell's script sets: the program then completes instead of running a command."""


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(completion)


def completion(shell: Shell = typer.Argument(..., help="The shell.")) -> None:
    """Print a script for a shell that completes commands and options: eval "$(bolide completion bash)"."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="bolide", complete_var=VARIABLE, shell=shell.value))


def ready_if_asked() -> None:
    """Enable completion if a shell's script started the program."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
