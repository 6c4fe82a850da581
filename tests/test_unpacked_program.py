"""What `tools/unpacked_program.sh` leaves behind when it unpacks a program from a package."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = """\
set -euo pipefail
. "$ROOT/tools/unpacked_program.sh"
good() { [ -x "$1" ]; }
ensure "" bolide-program bolide-package "a program"
"""
UNPACK = "mkdir -p unpacked/usr/bin; touch unpacked/usr/bin/bolide-program; chmod +x unpacked/usr/bin/bolide-program"


def ensure(folder: Path, apt_get: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a process group of its own, with these commands as `apt-get` and a `dpkg-deb` that unpacks."""
    for name, commands in (("apt-get", apt_get), ("dpkg-deb", UNPACK)):
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{commands}\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "ROOT": str(ROOT), "BOLIDE_CACHE": str(folder)}
    return subprocess.run(
        ["bash", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, start_new_session=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_download_leaves_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    done = ensure(tmp_path, f"ls .. >&2; kill -{number.name.removeprefix('SIG')} 0")
    assert "work." in done.stderr
    assert done.returncode != 0
    assert list((tmp_path / "bolide-package" / "usr" / "bin").iterdir()) == []


def test_a_failed_download_says_what_to_install_and_leaves_no_folder(tmp_path: Path) -> None:
    done = ensure(tmp_path, "exit 1")
    assert "a program is missing; run: sudo apt-get install" in done.stderr
    assert list((tmp_path / "bolide-package" / "usr" / "bin").iterdir()) == []


def test_the_unpacked_program_is_all_that_stays(tmp_path: Path) -> None:
    program = tmp_path / "bolide-package" / "usr" / "bin" / "bolide-program"
    assert ensure(tmp_path, "touch bolide-package_1.deb").stdout == f"{program}\n"
    assert list(program.parent.iterdir()) == [program]
