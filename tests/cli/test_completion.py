"""Completion: the scripts, and what the program answers a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import invoke


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = invoke("completion", shell)
    assert done.exit_code == 0 and f"_BOLIDE_COMPLETE{'=complete_bash' if shell == 'bash' else ''}" in done.output
    assert invoke("completion", "tcsh").exit_code == 2


def test_bash_completes_a_command_and_an_option(tmp_path: Path) -> None:
    program = tmp_path / "bolide"
    program.write_text(f"#!{sys.executable}\nfrom bolide.cli.main import main\n\nmain()\n")
    program.chmod(0o700)
    script = f"""
        {invoke("completion", "bash").output}
        COMP_WORDS=(bolide cluster ap) COMP_CWORD=2; _bolide_completion {program}; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(bolide topic list --sy) COMP_CWORD=3; _bolide_completion {program}; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["apply", "--system"], done.stderr
