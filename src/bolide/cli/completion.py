"""`bolide completion`: scripts that make a shell complete commands, options and names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NoReturn

import typer

VARIABLE: Final = "_BOLIDE_COMPLETE"
"""Environment variable that a shell's script sets: the program then completes instead of running a command."""

BASH: Final = r"""
_bolide_completion() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    # Bash also splits words at characters such as : and =, and only replaces the text after them.
    local end="${word##*["$COMP_WORDBREAKS"]}"
    COMPREPLY=( $( env COMP_WORDS="$line''" COMP_CWORD=-1 _BOLIDE_COMPLETE=complete_bash $1 ) )
    COMPREPLY=( "${COMPREPLY[@]#"${word%"$end"}"}" )
    [[ "${COMPREPLY[*]}" == *= ]] && compopt -o nospace 2> /dev/null
    return 0
}

complete -o default -F _bolide_completion bolide
"""


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(completion)


def completion(shell: Shell = typer.Argument(..., help="The shell.")) -> None:
    """Print a script for a shell that completes commands, options and the names of topics, groups, brokers, contexts
    and settings: eval "$(bolide completion bash)"."""
    from typer._completion_shared import get_completion_script

    if shell is Shell.BASH:
        print(BASH)
    else:
        print(get_completion_script(prog_name="bolide", complete_var=VARIABLE, shell=shell.value))


def complete(program: Callable[[], Callable[..., object]]) -> NoReturn:
    """Complete the words that a shell's script passes, and exit. A failure prints no text."""
    from typer._completion_classes import completion_init

    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 2):
        os.dup2(nowhere, handle)
    status = 1
    try:
        completion_init()
        program()(prog_name="bolide")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Exception:
        status = 1
    sys.stdout.flush()
    # A normal exit waits for the look-up of a host name, which cannot be cancelled.
    os._exit(status)
