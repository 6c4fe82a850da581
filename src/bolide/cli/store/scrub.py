"""`bolide store scrub status|start|pause BROKER`: the scrub of a running broker's store.

The broker reports the scrub in its runtime statistics (28), and `scrubEnable` (25) pauses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import typer

from bolide.cli.contexts import completions
from bolide.cli.contexts.admin_call import call
from bolide.cli.contexts.options import Namesrv
from bolide.cli.terminal import output
from bolide.cli.terminal.output import JsonFlag, boundary

if TYPE_CHECKING:
    from bolide.admin.client import Admin

app = typer.Typer(no_args_is_help=True)
ENABLE: Final = "scrubEnable"
_FOUND: Final = re.compile(r"scrubFinding_([0-9]{1,6})", re.ASCII)

Broker = typer.Argument(
    ..., help="Broker name, or the address of a member of its set.", autocompletion=completions.brokers
)


@app.command()
def status(broker: str = Broker, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Show the progress of the scrub and what it has found; exit code 1 if something is damaged."""
    with boundary():
        _show(broker, call(namesrv, lambda admin: admin.broker_runtime(broker)), as_json)


@app.command()
def start(broker: str = Broker, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Continue a paused scrub; if a pass is complete, begin the next one now."""
    with boundary():
        _show(broker, call(namesrv, lambda admin: _started(admin, broker)), as_json)


@app.command()
def pause(broker: str = Broker, namesrv: str = Namesrv, as_json: bool = JsonFlag) -> None:
    """Pause the scrub until `start`. A broker with a configuration file remains paused after a restart."""
    with boundary():
        _show(broker, call(namesrv, lambda admin: _paused(admin, broker)), as_json)


async def _started(admin: Admin, broker: str) -> Mapping[str, str]:
    if (await admin.broker_runtime(broker)).get("scrubState") not in ("running", None):
        # The change from false to true starts a pass, unless one is running.
        await admin.update_broker_config(broker, {ENABLE: "false"})
    await admin.update_broker_config(broker, {ENABLE: "true"})
    return await admin.broker_runtime(broker)


async def _paused(admin: Admin, broker: str) -> Mapping[str, str]:
    await admin.update_broker_config(broker, {ENABLE: "false"})
    return await admin.broker_runtime(broker)


def _show(broker: str, runtime: Mapping[str, str], as_json: bool) -> None:
    """Print the state. Ends the program with exit code 1 if something is damaged."""
    if "scrubState" not in runtime:
        output.fail(f"{broker} reports no scrub: it is a broker of RocketMQ, or of an older version of Bolide")
    checked, total = int(runtime["scrubCheckedBytes"]), int(runtime["scrubTotalBytes"])
    findings = int(runtime["scrubFindings"])
    numbered = sorted((int(match[1]), text) for key, text in runtime.items() if (match := _FOUND.fullmatch(key)))
    listed = [text for _, text in numbered]
    shown: dict[str, Any] = {
        "state": runtime["scrubState"],
        "checked": f"{checked:,} of {total:,} bytes of the log" if total else "nothing yet",
        "pass began": _time(runtime["scrubPassBeginTimestamp"]),
        "last pass ended": _time(runtime["scrubLastPassEndTimestamp"]),
        "passes": int(runtime["scrubPasses"]),
        "findings": findings,
    }
    if as_json:
        output.print_json(
            {
                "state": shown["state"],
                "checked_bytes": checked,
                "total_bytes": total,
                "pass_began": int(runtime["scrubPassBeginTimestamp"]),
                "last_pass_ended": int(runtime["scrubLastPassEndTimestamp"]),
                "passes": shown["passes"],
                "findings": findings,
                "listed": listed,
            }
        )
    else:
        output.pairs(f"Scrub of {broker}", shown, False)
        if listed:
            rows = [tuple(text.split(": ", 1)) if ": " in text else (text, "") for text in listed]
            title = f"{len(listed)} of {findings} findings" if findings > len(listed) else "Findings"
            output.table(title, ("Place", "Finding"), rows, False)
    if findings:
        raise typer.Exit(output.FAILED)


def _time(milliseconds: str) -> str:
    return str(output.Moment(int(milliseconds))) if milliseconds != "0" else "never"
