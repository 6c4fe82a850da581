"""`bolide spark`: prepare a Spark cluster to run Bolide's sources, sink and jobs."""

from __future__ import annotations

from dataclasses import asdict

import typer

from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.progress import shower

app = typer.Typer()


@app.callback()
def spark() -> None:
    """Prepare a Spark cluster to run Bolide's sources, sink and jobs."""


@app.command()
def pack(
    out: str = typer.Option("bolide-spark.tar.gz", help="The archive."),
    also: list[str] = typer.Option([], "--with", help="A further installed package to include; may be repeated."),
    as_json: bool = JsonFlag,
) -> None:
    """Write an archive with Python and everything that executors import, for workers without them."""
    with boundary():
        from bolide.spark.session.pack import pack as write

        packed = write(out, also, shower())
        if as_json:
            output.print_json(asdict(packed))
            return
        names = ", ".join(packed.distributions)
        print(f"{packed.path}: {packed.size / 1e6:,.0f} MB, {packed.files:,} files: Python and {names}")
        print(f"spark-submit --archives {packed.path}#bolide --conf spark.pyspark.python=./bolide/bin/python3 ...")


@app.command()
def prepare(as_json: bool = JsonFlag) -> None:
    """Store Spark's classes in Java's class data sharing format, so that local starts of Spark are faster.

    Run it once for each Java and PySpark; it takes half a minute, and 180 MB in the user's cache folder or in
    BOLIDE_SPARK_CACHE.
    """
    with boundary():
        from bolide.spark.session.class_archive import prepare as make

        prepared = make()
        if as_json:
            output.print_json(asdict(prepared))
            return
        how = f"created in {prepared.seconds:.0f} s" if prepared.seconds else "already there"
        print(f"{prepared.path}: {prepared.size / 1e6:,.0f} MB, {how}")
