"""Export and import: what goes out comes back, and other people's files come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.jobs.files import export_topic, import_files
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

HARD = 'line 1\n"quoted", ünïcode, \\'
SENT = [
    Message("T", HARD.encode(), tags="A", keys=["k1", "k2"], properties={"a": 'x"y', "b": "2"}),
    Message("T", b"plain", flag=3),
    Message("T", b" edges ", keys=["only"]),
]


def told(rows: Any) -> list[tuple[Any, ...]]:
    """What a message says of itself."""
    found = []
    for row in rows.collect():
        own = {name: value for name, value in row.properties.items() if name in ("a", "b")}
        found.append((bytes(row.body), row.tags, tuple(row["keys"] or ()), own, row.flag))
    return sorted(found, key=repr)


FORMATS = [("csv", "text"), ("csv", "base64"), ("json", "text"), ("parquet", "text")]


@pytest.mark.parametrize(("file_format", "body"), FORMATS)
def test_an_export_is_imported_as_it_was(
    spark: Any, bolide_broker: Broker, tmp_path: Path, file_format: str, body: str
) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    send(bolide_broker.namesrv_addr, SENT)
    bolide_broker.create_topic("Back")
    files, mark = str(tmp_path / "files"), str(tmp_path / "mark")
    done = export_topic(spark, files, namesrv | {"subscribe": "T"}, file_format=file_format, body=body)
    assert done.messages == 3
    assert export_topic(spark, files, namesrv | {"subscribe": "T"}, file_format=file_format, body=body).messages == 0
    into = {"topic": "Back", "file_format": file_format, "body": body, "checkpoint": mark}
    assert import_files(spark, files, namesrv, **into).messages == 3
    assert import_files(spark, files, namesrv, **into).messages == 0
    read = spark.read.format("rocketmq").options(**namesrv)
    assert told(read.load("Back")) == told(read.load("T"))


def test_rows_of_any_file_become_messages(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("Rows")
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "flights.csv").write_text("carrier,flight,text\nUA,1545,one\nDL,7,two\n", "utf-8")
    given: dict[str, Any] = {"topic": "Rows", "file_format": "csv"}
    named: dict[str, Any] = {"tags": "carrier", "keys": ["carrier", "flight"]}
    whole = import_files(spark, str(tmp_path / "in"), namesrv, **given, **named, checkpoint=str(tmp_path / "a"))
    assert whole.messages == 2
    import_files(spark, str(tmp_path / "in"), namesrv, **given, body_column="text", checkpoint=str(tmp_path / "b"))
    rows = spark.read.format("rocketmq").options(**namesrv).load("Rows").collect()
    found = sorted((bytes(row.body).decode(), row.tags, tuple(row["keys"] or ())) for row in rows)
    assert found == [
        ("one", None, ()),
        ("two", None, ()),
        ('{"carrier":"DL","flight":"7","text":"two"}', "DL", ("DL", "7")),
        ('{"carrier":"UA","flight":"1545","text":"one"}', "UA", ("UA", "1545")),
    ]
    with pytest.raises(OptionError, match="no column airline; they have carrier, flight, text"):
        import_files(spark, str(tmp_path / "in"), namesrv, **given, tags="airline", checkpoint=str(tmp_path / "c"))
