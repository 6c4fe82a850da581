"""Another commit of this repository as a Bolide to compare with: cloned and built once, and kept in the cache."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.report.shown import say
from bench.servers.stopping import Failed, last_line

_ROOT = Path(__file__).resolve().parents[2]
_EXTRAS = "otel"
"""The smallest: a broker needs none of them."""


def python_of(revision: str) -> str:
    """The interpreter of an environment with the Bolide of a commit in it; `revision` may be such an interpreter."""
    if os.sep in revision and os.access(revision, os.X_OK) and Path(revision).is_file():
        return revision
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise Failed(f"{revision} is no commit of this repository and no Python of another environment")
    clone = Path(os.environ.get("BOLIDE_CACHE") or _ROOT / ".cache") / "bench" / f"against-{commit[:12]}"
    if not clone.exists():
        partial = clone.with_name(f"{clone.name}.{os.getpid()}")
        _run(["git", "clone", "--quiet", "--no-checkout", str(_ROOT), str(partial)])
        _run(["git", "-C", str(partial), "checkout", "--quiet", "--detach", commit])
        partial.rename(clone)
    say(f"{revision} is {commit[:12]}, built in {clone}: this takes minutes, the first time")
    # The build must not see a Bolide of this environment, nor be told by it what to compile.
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "BOLIDE_IMPL")}
    command = [sys.executable, str(clone / "tools" / "prepare_venv.py"), str(clone / ".venv"), "--extras", _EXTRAS]
    _run(command, {**settings, "BOLIDE_BUILD": os.environ.get("BOLIDE_BUILD") or "auto"})
    return str(clone / ".venv" / "bin" / "python")


def describe(python: str) -> str:
    """What the Bolide of an environment says of itself."""
    words = [python, "-c", "from bolide import _impl; print(_impl.describe())"]
    told = subprocess.run(words, capture_output=True, text=True, cwd="/", check=False)
    if told.returncode:
        raise Failed(f"{python} has no Bolide: {last_line(told.stderr)}")
    return told.stdout.strip()


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit_here() -> str:
    """The commit that is checked out, and whether something in it is changed."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    return (
        f"{commit}{' with changes' if _git('status', '--porcelain', '--untracked-files=no') else ''}"
        if commit
        else "no commit"
    )


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a program; a compiler that it started ends with it when this one is interrupted."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True
    ) as child:
        try:
            told, _ = child.communicate()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    if child.returncode:
        raise Failed(f"`{' '.join(command[:3])} …` failed: {last_line(told)}")
