"""`bolide pipeline verify` tells what it found from what kept it from looking."""

from __future__ import annotations

import pytest
import typer

from bolide.cli.terminal import output
from bolide.errors import BolideError, ConfigError


class Broken(BolideError):
    """An error of Bolide."""


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (Broken("a task failed"), 4, "bolide: a task failed"),
        (OSError(13, "Permission denied", "/data/store"), 4, "bolide: /data/store: Permission denied"),
        (IndexError("index 0 is out of bounds"), 4, "please report it: IndexError: index 0 is out of bounds"),
        (ConfigError("no store"), 2, "bolide: no store"),
    ],
)
def test_a_check_that_breaks_is_no_finding(
    error: Exception, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.errors_as_json(False)  # a command that another test ran in this process may have asked for JSON
    with pytest.raises(typer.Exit) as ended, output.boundary(output.BROKEN):
        raise error
    assert ended.value.exit_code == code
    assert sentence in capsys.readouterr().err


def test_boundary_keeps_the_exit_code() -> None:
    with pytest.raises(typer.Exit) as ended, output.boundary(output.BROKEN):
        raise typer.Exit(output.FAILED)
    assert ended.value.exit_code == 1


def test_elsewhere_a_fault_is_no_sentence() -> None:
    with pytest.raises(IndexError), output.boundary():
        raise IndexError
