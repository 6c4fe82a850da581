"""`bolide consume`, where no broker is needed."""

from __future__ import annotations

import subprocess
import sys


def test_an_invalid_topic_is_refused_before_anything_is_asked() -> None:
    command = [sys.executable, "-m", "bolide.cli", "consume", "a b", "--namesrv", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bolide: topic 'a b' is invalid, only letters, digits and %|-_ are allowed\n"
