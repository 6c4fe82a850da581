"""`bolide pipeline VERB`: jobs over stores and clusters, on Spark; each verb is a file of this room.

Exit codes: 0 done, 1 it could not be done, 2 wrong usage. Of verify: 1 something was found, 4 it could not be checked.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

app = typer.Typer()

VERBS: Final = (
    "dispatch", "verify", "archive", "replay", "redrive", "mirror", "feed", "files", "stats", "trace", "template",
)  # fmt: skip
"""A verb's file has a function `attach(app)`, as `dispatch` has, and imports Spark only when it runs."""


@app.callback()
def pipeline() -> None:
    """Jobs over stores and clusters, on Spark."""


for _verb in VERBS:
    import_module(f"bolide.cli.pipeline.{_verb}").attach(app)
