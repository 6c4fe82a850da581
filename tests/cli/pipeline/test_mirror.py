"""What `bolide pipeline mirror` makes in the other cluster before Spark starts."""

from __future__ import annotations

from bolide.cli.pipeline.mirror import make_groups, make_topics
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin


def test_missing_topics_and_groups_are_made_once(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=5)
    bolide_broker.create_topic("U", queues=2)
    with Broker(broker_name="other") as other:
        here, target = {"namesrv": bolide_broker.namesrv_addr, "tags": "A"}, {"namesrv": other.namesrv_addr}
        there = (here, target, ["T", "U"], "from_")
        assert make_topics(*there) == ["from_T", "from_U"]
        assert make_topics(*there) == []
        for _ in range(2):
            make_groups(target, ["one", "two"])
        with Admin(other.namesrv_addr) as admin:
            assert [queue.write_queues for queue in admin.topic_route("from_T").queues] == [5]
            assert [queue.write_queues for queue in admin.topic_route("from_U").queues] == [2]
            assert {"one", "two"} <= set(admin.groups())
