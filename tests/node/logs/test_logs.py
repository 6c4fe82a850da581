"""The lines of a daemon's log: one for each event, with the zone, as text or JSON, by level and room."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys

import pytest

from bolide.errors import ConfigError
from bolide.node.logs.logs import JsonLines, TextLines, parse_levels

WHEN = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    raised = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("bolide.broker.broker-a", logging.WARNING, "", 1, message, arguments, raised)


def failed() -> BaseException:
    try:
        raise OSError("EIO")
    except OSError as error:
        return error


def test_a_line_of_text_has_time_level_and_log() -> None:
    line = TextLines().format(record("closing %s", "10.0.0.1:2"))
    assert re.fullmatch(WHEN + " WARNING bolide.broker.broker-a: closing 10.0.0.1:2", line)


def test_text_from_a_peer_cannot_start_a_line() -> None:
    line = TextLines().format(record("it said: %s", "x\n2026-01-01 ERROR forged\r\n"))
    assert "\n" not in line and line.endswith("x\\n2026-01-01 ERROR forged\\r\\n")
    assert "\n" not in JsonLines().format(record("it said: %s", "x\ny"))


def test_a_traceback_is_indented_or_a_field() -> None:
    first, *rest = TextLines().format(record("failed", error=failed())).split("\n")
    assert (
        first.endswith(": failed") and rest[-1] == "    OSError: EIO" and all(each.startswith("    ") for each in rest)
    )
    told = json.loads(JsonLines().format(record("failed", error=failed())))
    assert told["error"].endswith("OSError: EIO")


def test_a_line_of_json() -> None:
    told = json.loads(JsonLines().format(record("Grüße an %s", "a")))
    assert re.fullmatch(WHEN, told.pop("time"))
    assert told == {"level": "WARNING", "log": "bolide.broker.broker-a", "message": "Grüße an a"}


def test_levels() -> None:
    assert parse_levels("") == {}
    assert parse_levels("warning") == {"": "WARNING"}
    assert parse_levels(" bolide.broker=DEBUG; bolide.routes = error;INFO;") == {
        "bolide.broker": "DEBUG", "bolide.routes": "ERROR", "": "INFO",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "wrong"),
    [("LOUD", "'LOUD' is not a level"), ("bolide.broker=", "'' is not a level"), ("urllib=INFO", "is not a logger")],
)
def test_levels_that_cannot_be(levels: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        parse_levels(levels)


def test_a_process_logs_as_it_is_told_and_an_embedding_one_as_before() -> None:
    told = """
import logging, sys
from bolide.namesrv.options import NamesrvOptions
from bolide.node.logs.logs import configure_logging, start_logging
if len(sys.argv) > 1:
    logging.basicConfig(format="mine: %(message)s", level=logging.INFO)
start_logging()
logging.getLogger("bolide.node").info("text")
configure_logging(NamesrvOptions(log_format="json", log_levels="bolide.routes=ERROR"))
logging.getLogger("bolide.routes").warning("too low")
logging.getLogger("bolide.node").info("json")
"""
    own, embedded = (
        subprocess.run(
            [sys.executable, "-c", told, *more], capture_output=True, check=True, text=True
        ).stderr.splitlines()
        for more in ([], ["embedded"])
    )
    assert own[0].endswith("INFO    bolide.node: text") and json.loads(own[1])["message"] == "json" and len(own) == 2
    assert embedded == ["mine: text", "mine: json"]
