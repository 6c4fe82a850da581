"""`bolide pipeline COMMAND`: jobs over stores and clusters, on Spark; each command is a file of this package.

Exit codes: 0 success, 1 failure, 2 wrong usage. For `verify`: 1 findings, 4 the check could not run.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

app = typer.Typer()

VERBS: Final = (
    "dispatch", "verify", "archive", "replay", "redrive", "mirror", "feed", "files", "stats", "trace", "template",
)  # fmt: skip
"""Each file has a function `attach(app)`, like `dispatch`, and imports Spark only when its command runs."""


@app.callback()
def pipeline() -> None:
    """Jobs over stores and clusters, on Spark."""


for _verb in VERBS:
    import_module(f"bolide.cli.pipeline.{_verb}").attach(app)
