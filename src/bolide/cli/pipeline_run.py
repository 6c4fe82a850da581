"""What the verbs of `bolide pipeline` share: their options, a session for the time of a job, and its last line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer

from bolide.cli import output
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.spark.jobs.running import JobResult

INTERRUPTED: Final = 130
"""What a shell expects of a process that Ctrl-C ended."""

Topics: Final = typer.Argument(None, help="Topics, separated by commas.")
Pattern: Final = typer.Option(None, help="Instead of topics: a regular expression that their names match.")
Where: Final = typer.Option(None, help="SQL over the columns of a message, e.g. \"tags = 'A' AND queue_id < 4\".")
Checkpoint: Final = typer.Option(None, help="Folder that remembers how far the job came; a path for Spark.")
TableFormat: Final = typer.Option("parquet", "--format", help="parquet, or delta or iceberg when Spark has them.")
SourceOption: Final = typer.Option([], "--option", help="NAME=VALUE: any option of format rocketmq; repeat it.")
Conf: Final = typer.Option([], "--conf", help="NAME=VALUE: a setting of Spark; repeat it.")


def named_values(given: Sequence[str], flag: str) -> dict[str, str]:
    """The pairs of a repeated option. Raises ConfigError."""
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {text} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs


def read_from(namesrv: str, topics: str | None, pattern: str | None, more: Sequence[str]) -> dict[str, str]:
    """Options of `format("rocketmq")` that choose topics. Raises ConfigError."""
    if (topics is None) == (pattern is None):
        raise ConfigError("say which topics: names separated by commas, or --pattern")
    chosen = {"subscribe": topics} if topics else {"subscribePattern": pattern or ""}
    return {"namesrv": namesrv, **chosen, **named_values(more, "--option")}


@contextmanager
def session(name: str, master: str, conf: Sequence[str]) -> Iterator[Any]:
    """A SparkSession for one job, in UTC, stopped at its end; what Spark throws becomes a sentence."""
    # What goes wrong is told in a sentence; Spark's own logs of it, and py4j's of Ctrl-C (by the root logger), would be
    # traces around it.
    settings = {"spark.log.level": "OFF", **named_values(conf, "--conf")}
    logging.getLogger().setLevel(logging.CRITICAL)
    from bolide.spark.jobs.running import sentences
    from bolide.spark.session import job_session

    spark = job_session(f"bolide pipeline {name}", master, settings=settings)
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        with sentences():
            yield spark
    finally:
        spark.stop()


def batch_from(
    spark: Any, namesrv: str, topics: str | None, store: str | None, archive: str | None, more: Sequence[str]
) -> Any:
    """A DataFrame of the messages of topics, of a store folder or of an archive. Raises ConfigError for two of them."""
    if store and archive:
        raise ConfigError("name either --store or --archive, not both")
    if store:
        given = {"path": store, **({"subscribe": topics} if topics else {}), **named_values(more, "--option")}
        return spark.read.format("rocketmq-store").options(**given).load()
    if archive:
        stored = spark.read.parquet(archive)
        return stored.where(stored.topic.isin(topics.split(","))) if topics else stored
    return spark.read.format("rocketmq").options(**read_from(namesrv, topics, None, more)).load()


def finished(result: JobResult, done: str, as_json: bool) -> None:
    """The last line of a job, and its exit code."""
    if as_json:
        output.print_json(asdict(result))
    else:
        rate = result.messages / max(result.seconds, 1e-9)
        print(f"{done} {result.messages:,} messages in {result.seconds:.1f} s ({rate:,.0f}/s)")
    if result.interrupted:
        output.note("interrupted: the same command goes on from there")
        raise typer.Exit(INTERRUPTED)
