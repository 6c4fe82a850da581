"""A stream whose reader cannot be made fails with that error, wherever Spark begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructType

from bolide.spark.data_source import RocketMQDataSource
from bolide.spark.errors import OptionError
from bolide.spark.store.store_source import RocketMQStoreDataSource

OTHER = StructType().add("colour", StringType())
TOPIC = {"namesrv": "127.0.0.1:1", "subscribe": "T"}

USES: list[Callable[[Any], object]] = [
    lambda reader: reader.initialOffset(),
    lambda reader: reader.latestOffset(),
    lambda reader: reader.latestOffset({}, None),
    lambda reader: reader.partitions({}, {}),
    lambda reader: reader.read(InputPartition(None)),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (lambda: RocketMQDataSource({**TOPIC, "endingOffsets": "latest"}).streamReader(OTHER), "a stream has no end"),
        (lambda: RocketMQDataSource(TOPIC).streamReader(OTHER), "has no column colour"),
        (
            lambda: RocketMQStoreDataSource({"path": "/s", "table": "bad_ranges"}).streamReader(OTHER),
            "table bad_ranges cannot be streamed",
        ),
        (lambda: RocketMQStoreDataSource({"path": "/s"}).streamReader(OTHER), "has no column colour"),
    ],
)
def test_the_first_use_raises_the_error(
    reader: Callable[[], DataSourceStreamReader], text: str, use: Callable[[Any], object]
) -> None:
    failed = reader()
    with pytest.raises(OptionError, match=text):
        use(failed)
    failed.stop()
