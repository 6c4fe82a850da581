"""The commits of a group: kept by brokers of both kinds, and sent together where that is safe."""

from __future__ import annotations

from bolide.remoting import codes
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.source_options import read_options
from tests.client.scripted_broker import UnlockedOffsets


def cluster(broker: UnlockedOffsets) -> Cluster:
    options = {"namesrv": broker.address, "subscribe": "T,U", "group": "G", "retryTimeoutMs": "0"}
    return Cluster(read_options(options), pause_s=0.0)


def test_the_first_commits_of_a_group_are_all_kept_where_the_first_one_makes_the_table() -> None:
    with UnlockedOffsets(queues=4) as broker:
        broker.topics.add("U")
        here = cluster(broker)
        queues = here.queues(["T", "U"])
        here.commit({queue: 5 + place for place, queue in enumerate(queues)})
        assert here.committed(queues, "G", -2) == {queue: 5 + place for place, queue in enumerate(queues)}
        here.commit(dict.fromkeys(queues, 40))
        assert here.committed(queues, "G", -2) == dict.fromkeys(queues, 40)
        assert len(broker.requests(codes.UPDATE_CONSUMER_OFFSET)) == 16
        here.close()


def test_a_broker_that_was_lost_may_have_lost_the_table() -> None:
    with UnlockedOffsets(queues=4) as broker:
        here = cluster(broker)
        queues = here.queues(["T"])
        here.commit(dict.fromkeys(queues, 3))
        broker.cut()
        broker.on_loop(broker.offsets.clear)
        here.latest(queues)
        here.commit(dict.fromkeys(queues, 4))
        assert broker.offsets == {("G", "T", queue.queue_id): 4 for queue in queues}
        here.close()
