"""Jobs resend stored messages of other clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.spark.jobs.archive import archive
from bolide.spark.jobs.feed import feed
from bolide.spark.jobs.mirror import mirror
from bolide.spark.jobs.redrive import redrive
from bolide.spark.jobs.replay import replay
from bolide.testing.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_jobs_copy_messages_whose_tag_no_subscription_selects(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    for topic in ("T", "%DLQ%G", "Replayed", "from_T", "Redriven", "Fed"):
        bolide_broker.create_topic(topic, queues=1)
    row = spark.sql("SELECT CAST('x' AS BINARY) AS body, 'a||b' AS tags")
    for topic in ("T", "%DLQ%G"):
        writer = row.write.format("rocketmq").mode("append").options(topic=topic, **namesrv)
        with pytest.raises(Exception, match=r"its tag 'a\|\|b' in the column tags contains"):
            writer.save()
        writer.option("anyTag", "true").save()

    source = {**namesrv, "subscribe": "T"}
    archive(spark, str(tmp_path / "archive"), source)
    replay(spark, str(tmp_path / "archive"), namesrv, checkpoint=str(tmp_path / "replay"), topic="Replayed")
    mirror(spark, source, namesrv, checkpoint=str(tmp_path / "mirror"), prefix="from_")
    redrive(spark, "G", namesrv, topic="Redriven")
    feed(spark, "rocketmq", source, {**namesrv, "topic": "Fed"}, checkpoint=str(tmp_path / "feed"))
    for topic in ("Replayed", "from_T", "Redriven", "Fed"):
        rows = spark.read.format("rocketmq").options(**namesrv).load(topic).collect()
        assert [row.tags for row in rows] == ["a||b"], topic
