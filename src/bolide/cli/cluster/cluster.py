"""`bolide cluster`: the brokers of a cluster, and the statistics and settings of a broker."""

from __future__ import annotations

from typing import Any

import typer

from bolide.cli.cluster import declared, planned
from bolide.cli.cluster.planned import Controller
from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.daemons.serve import Settings, given_settings
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary
from bolide.cli.terminal.watch import watched

app = typer.Typer()
declared.attach(app)
planned.attach(app)


@app.command("list")
@watched
def list_brokers(namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """List brokers, with their rates over the last ten seconds; fails unless there is one and all accept messages."""
    with boundary():
        brokers = call(namesrv, lambda admin: admin.brokers())
        rows = [
            (
                each.cluster,
                each.broker_name,
                each.broker_id,
                each.role,
                each.address,
                each.version,
                rate(each.runtime.get("putTps")),
                rate(each.runtime.get("getTransferredTps")),
                each.state,
            )
            for each in brokers
        ]
        columns = ("Cluster", "Broker", "Id", "Role", "Address", "Version", "Put/s", "Get/s", "State")
        if as_json or not rows:
            output.table("Brokers", columns, rows, as_json)
        # Without the cluster and the release in each row, a row fits a line of a terminal or a mail.
        for cluster in sorted({each.cluster for each in brokers} if not as_json else ()):
            releases = ", ".join(sorted({each.version for each in brokers if each.cluster == cluster and each.version}))
            title = f"Cluster {cluster}{f', {releases}' if releases else ''}"
            of_cluster = [(*row[1:5], *row[6:]) for row in rows if row[0] == cluster]
            output.table(title, (*columns[1:5], *columns[6:]), of_cluster, False)
        if not brokers:
            output.fail("no broker is registered at the name servers: is one running with their address?")
        refused = [f"{each.broker_name}: {each.error}" for each in brokers if each.refused]
        if refused:
            output.fail("; ".join(refused))
        silent = [each.broker_name for each in brokers if each.error]
        if silent:
            output.fail(f"{', '.join(silent)} cannot be reached", output.UNREACHABLE)
        refusing = [each.broker_name for each in brokers if not each.serves]
        if refusing:
            output.fail(f"{', '.join(refusing)} accepts no messages")


def rate(figures: str | None) -> float | None:
    """Return the first of the three rates in the text, messages per second over 10 s, or None if the text has no
    number."""
    try:
        return float((figures or "").split(" ")[0])
    except ValueError:
        return None


@app.command()
@watched
def replicas(namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """List the replicas of each master and their lag in bytes and time; fails if one is not in sync."""
    with boundary():
        found = call(namesrv, lambda admin: admin.replicas())
        rows = [
            (
                each.broker_name,
                each.master,
                each.log_end,
                each.replica,
                each.lag,
                output.span(each.lag_ms),
                each.in_sync,
            )
            for each in found
        ]
        columns = ("Broker", "Master", "Log end", "Replica", "Lag", "Lag time", "In sync")
        if as_json or not rows:
            with_errors = [(*row, each.error, each.kept) for row, each in zip(rows, found, strict=True)]
            output.table("Replicas", (*columns, "Error", "Refused"), with_errors, as_json)
        # Without the master in each row, a row fits a line of a terminal.
        for name in sorted({each.broker_name for each in found if not each.error} if not as_json else ()):
            of_set = [row for row in rows if row[0] == name]
            output.table(f"Replicas of {name}, {of_set[0][1]}", columns[2:], [row[2:] for row in of_set], False)
        silent = [each.broker_name for each in found if each.error]
        if silent:
            why = "; ".join(each.error for each in found if each.error)
            code = output.FAILED if any(each.refused for each in found) else output.UNREACHABLE
            output.fail(f"the masters of {', '.join(silent)} tell nothing of replicas: {why}", code)
        kept = [f"{each.replica} does not follow its master: {each.kept}" for each in found if each.kept]
        if kept:
            output.fail("; ".join(kept))
        late = [each.replica for each in found if not each.in_sync]
        if late:
            output.fail(f"{', '.join(late)} lacks too much of its master's log")


@app.command()
@watched
def members(
    broker_set: str = typer.Argument(
        "", metavar="[SET]", help="Broker name of a set; without it all are listed.", autocompletion=completions.brokers
    ),
    namesrv: str = Namesrv,
    controller: str = Controller,
    as_json: bool = JsonFlag,
) -> None:
    """List the brokers of sets under a controller, their roles and epochs; fails unless all are in sync."""
    with boundary():
        found = call(namesrv, lambda admin: admin.members_of_sets(broker_set, controller))
        rows = [
            (each.broker_name, each.broker_id, each.address, each.role, each.epoch, each.in_sync, each.alive)
            for each in found
        ]
        columns = ("Broker", "Id", "Address", "Role", "Epoch", "In sync", "Alive")
        output.table("Members", columns, rows, as_json)
        if not rows:
            output.fail("no set is under a controller: `bolide cluster replicas` shows sets without one")
        led = {each.broker_name for each in found if each.master and each.alive}
        masterless = sorted({each.broker_name for each in found} - led)
        if masterless:
            output.fail(f"{', '.join(masterless)} has no live master")
        late = [f"{each.broker_id} of {each.broker_name}" for each in found if not (each.in_sync and each.alive)]
        if late:
            output.fail(f"{', '.join(late)} is not in sync or does not live")


@app.command()
@watched
def info(
    broker: str = typer.Argument(..., help="Broker name.", autocompletion=completions.brokers),
    namesrv: str = Namesrv,
    as_json: bool = JsonFlag,
) -> None:
    """Show the runtime statistics of a broker."""
    with boundary():
        runtime: dict[str, Any] = dict(sorted(call(namesrv, lambda admin: admin.broker_runtime(broker)).items()))
        output.pairs(f"Broker {broker}", runtime, as_json)


@app.command()
def config(
    broker: str = typer.Argument(..., help="Broker name.", autocompletion=completions.brokers),
    namesrv: str = Namesrv,
    settings: list[str] | None = Settings,
    as_json: bool = JsonFlag,
) -> None:
    """Show the settings of a running broker; --set changes some first."""
    with boundary():
        changes = {key: str(value) for key, value in given_settings(settings).items()}
        if changes:
            call(namesrv, lambda admin: admin.update_broker_config(broker, changes))
        found: dict[str, Any] = dict(sorted(call(namesrv, lambda admin: admin.broker_config(broker)).items()))
        output.pairs(f"Settings of {broker}", found, as_json)
