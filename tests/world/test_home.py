"""A path below the home folder, for a user who has one and for a user who has none."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import pwd
from bolide.errors import ConfigError
from bolide.world.home import expanded

def nobody(number): raise KeyError(number)
pwd.getpwuid = nobody
try:
    print(expanded("~/store"))
except ConfigError as error:
    print(error)
"""


def run_with(**more: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "HOME"} | more
    return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=env).stdout


def test_tilde_is_replaced_or_named_in_the_error() -> None:
    assert run_with(HOME="/home/u") == "/home/u/store\n"
    assert run_with() == "~/store starts with ~, but this user has no home folder: set HOME, or give a path without ~\n"
