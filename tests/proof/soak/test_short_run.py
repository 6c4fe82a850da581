"""A run of seconds with real processes: every kind of traffic flows, the page is written, Ctrl-C is heard.

Nothing here depends on how fast the machine is: the run ends when everything has flowed, and gives up after minutes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from proof.kit import children
from proof.soak.run import FLOWS
from proof.soak.streams import READERS, Reader, Stream

pytestmark = pytest.mark.slow  # six processes
ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 480.0


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "proof.soak", "--quick", "--folder", str(folder), *arguments]
    return children.start(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Tags(HTMLParser):
    """Counts the tags of a page, and what it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.fetched: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]


def drawn(page: str) -> Iterator[Any]:
    """The plots of a page, which are well-formed."""
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        yield ElementTree.fromstring(svg)


@pytest.mark.timeout(600)
def test_every_kind_of_traffic_flows_and_is_accounted_for(tmp_path: Path) -> None:
    process = start(tmp_path / "soak")
    said, _ = process.communicate(timeout=PATIENCE_S)
    told = json.loads((tmp_path / "soak" / "soak.json").read_text())
    assert process.returncode == 0, f"{said}\n{told['facts']}"
    assert [what for what in FLOWS if not told["counts"].get(what)] == []
    assert "each acknowledged message reached each reader that wanted it" in said
    page = (tmp_path / "soak" / "soak.html").read_text()
    tags = Tags(page)
    groups = {series["group"] for series in told["series"]}
    assert {"Resident memory", "Blocks of objects", "Loop of the broker", "Owed to readers", "Disk use"} <= groups
    assert (len(list(drawn(page))), tags.fetched) == (len(groups), [])
    assert page.index(told["verdict"]) < page.index("<svg")
    assert "script" not in tags.tags


@pytest.mark.timeout(600)
def test_an_interrupted_run_writes_its_page_and_leaves_no_process(tmp_path: Path) -> None:
    process = start(tmp_path / "soak", "--rate", "5")
    sent = tmp_path / "soak" / "sent.journal"
    while not (sent.exists() and sent.stat().st_size):
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "interrupted" in (tmp_path / "soak" / "soak.html").read_text()
    assert json.loads((tmp_path / "soak" / "soak.json").read_text())["good"] is True
    for name in ("broker", "name server"):
        assert "stops" in (tmp_path / "soak" / f"{name}.log").read_text()


def test_every_stream_has_a_reader_that_wants_some_of_it() -> None:
    def wants_some(reader: Reader) -> bool:
        return any(reader.wants(number) for number in range(30))

    assert {reader.stream for reader in READERS if wants_some(reader)} == set(Stream)
