"""A verb of `bolide pipeline` in the session of the tests, where its process is not what is tested.

A session of its own costs more processor time than what most verbs do in a test.
"""

from __future__ import annotations

import logging

import pytest
from click.testing import Result
from typer.testing import CliRunner


def verb(patch: pytest.MonkeyPatch, *words: str) -> Result:
    """What the verb says, and its exit code. It gets the session that runs, and leaves it running."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from bolide.cli.pipeline.verbs import app

    stopped: list[object] = []

    def stop(session: object) -> None:
        stopped.append(session)

    level = logging.getLogger().level
    with patch.context() as during:
        during.setattr(SparkSession, "stop", stop)
        during.setattr(SparkContext, "stop", stop)
        try:
            result = CliRunner().invoke(app, list(words))
        finally:
            logging.getLogger().setLevel(level)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert len(stopped) == 1, "a verb stops its session, and once"
    return result
