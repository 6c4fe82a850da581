"""`bolide pipeline trace`: the message trace, one row per message."""

from __future__ import annotations

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.options import Master, Namesrv
from bolide.cli.pipeline.run import Conf, SourceOption
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary, print_json_line
from bolide.cli.terminal.progress import shower
from bolide.errors import ConfigError
from bolide.layout.names import TRACE_TOPIC

_SHOWN = 20


def attach(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(trace)


def trace(
    namesrv: str = Namesrv,
    trace_topic: str = typer.Option(
        TRACE_TOPIC, help="Where the clients write their trace.", autocompletion=completions.topics
    ),
    store: str | None = typer.Option(None, help="Instead of a cluster: a store folder."),
    archive: str | None = typer.Option(None, help="Instead of a cluster: a folder that archive wrote."),
    where: str | None = typer.Option(None, help='SQL over the trace\'s columns, e.g. "consumed = 0".'),
    out: str | None = typer.Option(None, help="Write the rows to this folder as Parquet instead of printing them."),
    limit: int = typer.Option(_SHOWN, min=1, help="Rows to print at most, the newest first."),
    option: list[str] = SourceOption,
    conf: list[str] = Conf,
    master: str = Master,
    as_json: bool = JsonFlag,
) -> None:
    """Show each traced message: when it was sent, and every attempt to consume it."""
    with boundary():
        from bolide.cli.pipeline.run import batch_source, session
        from bolide.spark.jobs.stages import stages_shown

        if out is not None and as_json:
            raise ConfigError("--json prints rows and --out writes a file: give only one of them")
        absent = (
            f"nothing is traced here: there is no topic {trace_topic}; set traceTopicEnable=true at the broker and "
            "trace at clients, or name another --trace-topic"
        )
        load = batch_source(namesrv, trace_topic, store, archive, option, absent)
        with session("trace", master, conf) as spark:
            from bolide.spark.jobs.trace import trace_rows

            rows = trace_rows(load(spark))
            rows = rows.where(where) if where else rows
            if out is not None:
                with stages_shown(spark, "reading the trace", shower()):
                    rows.write.mode("overwrite").parquet(out)
                print(f"{spark.read.parquet(out).count():,} messages traced in {out}")
                return
            with stages_shown(spark, "reading the trace", shower()):
                found = rows.orderBy("sent_at", ascending=False).limit(limit).collect()
        if as_json:
            for row in found:
                print_json_line(row.asDict(recursive=True))
            return
        shown = [
            (each.message_id, each.topic, each.producer_group, each.sent_at, each.send_ms, len(each.consumptions),
             each.consumed)
            for each in found
        ]  # fmt: skip
        heads = ("Message", "Topic", "Producer group", "Sent", "ms", "Attempts", "Consumed")
        output.table("Trace", heads, shown, False)
