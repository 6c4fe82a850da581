"""Shared code of the commands of `bolide pipeline`: options, the session of a job, and its last line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.entry import INTERRUPTED
from bolide.cli.terminal import output
from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.spark.jobs.running import JobResult
    from bolide.spark.source.connection import ClusterAccess


def named_values(given: Sequence[str], flag: str) -> dict[str, str]:
    """Parse the NAME=VALUE pairs of a repeated option. Raises `ConfigError` if a pair is invalid."""
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {text} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs


def _settings(given: list[str]) -> list[str]:
    with output.boundary():
        named_values(given, "--conf")  # before the first request to a cluster
    return given


Topics: Final = typer.Argument(None, help="Topics, separated by commas.", autocompletion=completions.topic_lists)
Pattern: Final = typer.Option(None, help="Instead of topics: a regular expression that their names match.")
Where: Final = typer.Option(None, help="SQL over the columns of a message, e.g. \"tags = 'A' AND queue_id < 4\".")
Checkpoint: Final = typer.Option(None, help="Folder for the job's progress; a path for Spark.")
TableFormat: Final = typer.Option("parquet", "--format", help="parquet, or delta or iceberg if Spark has them.")
BadRecords: Final = typer.Option(
    None, help="What to do with a message whose body cannot be read: fail (default), drop, or column (_bad_record)."
)
DeadLetterPath: Final = typer.Option(None, help="Folder for such messages, as Parquet; they are then dropped.")
SourceOption: Final = typer.Option([], "--option", help="NAME=VALUE: any option of format rocketmq; may be repeated.")
Conf: Final = typer.Option([], "--conf", help="NAME=VALUE: a setting of Spark; may be repeated.", callback=_settings)


def read_from(
    namesrv: str, topics: str | None, pattern: str | None, more: Sequence[str], streaming: bool = True, absent: str = ""
) -> dict[str, str]:
    """Return the options of `format("rocketmq")` that select existing topics. Raises `ConfigError`."""
    if (topics is None) == (pattern is None):
        raise ConfigError("say which topics: names separated by commas, or --pattern")
    chosen = {"subscribe": topics} if topics else {"subscribePattern": pattern or ""}
    options = {**cluster_from(namesrv, more), **chosen}
    check_read(options, streaming, absent)
    return options


def with_bad_records(more: Sequence[str], bad_records: str | None, dead_letter_path: str | None) -> list[str]:
    """Return the repeated --option of a read, extended by the flags for single options."""
    given = {"badRecords": bad_records, "deadLetterPath": dead_letter_path}
    return [*more, *(f"{name}={value}" for name, value in given.items() if value is not None)]


def cluster_from(namesrv: str, more: Sequence[str], flag: str = "--option") -> dict[str, str]:
    """Return the options of `format("rocketmq")` for a cluster, with the environment's TLS settings unless given.
    Raises `ConfigError` if an option is invalid."""
    from bolide.client.instance.environment_tls import environment_settings

    given = named_values(more, flag)
    says_how = any(name.lower().startswith("tls") for name in given)
    return {"namesrv": namesrv, **({} if says_how else environment_settings()), **given}


def check_read(options: Mapping[str, str], streaming: bool, absent: str = "") -> None:
    """Check a read before Spark starts: options, name servers, topics.

    `absent` is the text of the error for a missing topic. Raises `ConfigError`, or `OptionError` for a missing topic.
    """
    from bolide.spark.errors import OptionError
    from bolide.spark.source.source_options import read_options

    try:
        checked = read_options(options, streaming)
    except OptionError as error:
        raise ConfigError(str(error)) from None
    try:
        _meet(checked, checked.topics, False)
    except OptionError as error:
        raise OptionError(absent or str(error)) from None


def check_write(options: Mapping[str, str], topic: str | None, checkpoint: str | None = None) -> None:
    """Check a write before Spark starts. With a checkpoint it is a stream. Raises `ConfigError`."""
    from bolide.spark.errors import OptionError
    from bolide.spark.sink.sink_options import sink_options

    given = {**options, **({"checkpointLocation": checkpoint} if checkpoint else {})}
    try:
        checked = sink_options(given, streaming=checkpoint is not None)
    except OptionError as error:
        raise ConfigError(str(error)) from None
    _meet(checked.connection, (topic,) if topic else (), True)


def _meet(options: ClusterAccess, topics: Sequence[str], writable: bool) -> None:
    from bolide.spark.source.cluster import Cluster

    cluster = Cluster(options)
    try:
        with reachable():
            if topics:
                cluster.queues(topics, writable)
            else:
                cluster.topic_names()
    finally:
        cluster.close()


@contextmanager
def reachable() -> Iterator[None]:
    """Exit with code 3 if the cluster does not respond."""
    from bolide.spark.errors import ClusterUnavailable
    from bolide.spark.failures import JobFailed

    try:
        yield
    except ClusterUnavailable as error:
        output.fail(str(error), output.UNREACHABLE)
    except JobFailed as error:
        if error.unreachable:
            output.fail(str(error), output.UNREACHABLE)
        raise


@contextmanager
def session(name: str, master: str, conf: Sequence[str]) -> Iterator[Any]:
    """Yield a SparkSession in UTC for a job, and stop it at the end. Reports Spark's errors as one sentence."""
    # Errors are shown as one sentence. Logs by Spark, and by py4j after Ctrl-C (through the root logger), would add
    # tracebacks.
    settings = {"spark.log.level": "OFF", **named_values(conf, "--conf")}
    logging.getLogger().setLevel(logging.CRITICAL)
    from bolide.spark.failures import sentences
    from bolide.spark.session.session import job_session, no_error_records

    spark = job_session(f"bolide pipeline {name}", master, settings=settings)
    no_error_records()
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        with reachable(), sentences():
            yield spark
    finally:
        spark.stop()


def batch_source(
    namesrv: str, topics: str | None, store: str | None, archive: str | None, more: Sequence[str], absent: str = ""
) -> Callable[[Any], Any]:
    """Return a function that loads the messages of topics, a store folder or an archive. Raises `ConfigError` if the
    options are invalid."""
    if store and archive:
        raise ConfigError("give either --store or --archive, not both")
    if store:
        chosen = {"path": store, **({"subscribe": topics} if topics else {}), **named_values(more, "--option")}
        return lambda spark: spark.read.format("rocketmq-store").options(**chosen).load()
    if archive:
        return lambda spark: _archived(spark, archive, topics)
    options = read_from(namesrv, topics, None, more, False, absent)
    return lambda spark: spark.read.format("rocketmq").options(**options).load()


def _archived(spark: Any, archive: str, topics: str | None) -> Any:
    from bolide.spark.option_values import comma_names

    stored = spark.read.parquet(archive)
    return stored.where(stored.topic.isin(*comma_names("TOPICS", topics))) if topics else stored


def finished(result: JobResult, done: str, as_json: bool) -> None:
    """Print the last line of a job. Exits with `INTERRUPTED` if the job was interrupted."""
    if as_json:
        output.print_json(asdict(result))
    else:
        rate = result.messages / max(result.seconds, 1e-9)
        print(f"{done} {result.messages:,} messages in {result.seconds:.1f} s ({rate:,.0f}/s)")
    if result.interrupted:
        output.note("interrupted: the same command resumes it")
        raise typer.Exit(INTERRUPTED)
