"""The program from its first moment on."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, sys

def ctrl_c(*arguments):
    raise KeyboardInterrupt

where = sys.argv.pop()
if where == "program":
    sys.modules["typer"] = type("Module", (), {"__getattr__": ctrl_c})()
else:
    importlib.import_module = ctrl_c

from bolide.cli.entry import main
main()
"""


@pytest.mark.parametrize("where", ["program", "commands"])
def test_ctrl_c_while_it_loads_ends_it_quietly(where: str) -> None:
    """In the imports of the program itself, and in those of its commands."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "version", where], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
