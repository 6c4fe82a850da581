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


ENDED = """
import atexit, os, signal, sys, types

class Last:
    def __del__(self):  # called when the interpreter frees the modules
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)

sys.modules["bolide.cli.main"] = module = types.ModuleType("bolide.cli.main")
module.last = Last()
status = sys.argv.pop()

def run():
    signal.signal(signal.SIGTERM, lambda *_: None)
    if status == "raise":
        raise KeyboardInterrupt
    sys.exit(int(status))

module.main = run
from bolide.cli.entry import main
main()
"""


@pytest.mark.parametrize(("status", "code"), [("0", 0), ("3", 3), ("raise", 130)])
def test_signals_at_the_exit_keep_the_exit_code(status: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", ENDED, status], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
