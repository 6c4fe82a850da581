"""Where the live log begins behind an archive, when its topic is no longer the one that was archived."""

from __future__ import annotations

import json

import pytest

from bolide.client import Message
from bolide.spark.errors import DataLost
from bolide.spark.jobs.archive import where_live_begins
from bolide.spark.source.stream_offset import read_offset
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.produce import send
from tests.spark.source.created_again import OPEN, read_up_to


def test_a_topic_made_anew_has_no_seam_with_what_was_archived(bolide_broker: Broker) -> None:
    end = read_offset(read_up_to(bolide_broker, "T", 9))
    OPEN.pop().stop()
    live = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    assert json.loads(where_live_begins(live, end)) == {"T": {"broker-a": {"0": 9}}}
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.delete_topic("T")
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n) for n in range(14)])
    with pytest.raises(DataLost, match="T@broker-a:0 was archived up to offset 9 and has another message at offset 8"):
        where_live_begins(live, end)
    tolerant = where_live_begins({**live, "failOnDataLoss": "false"}, end)
    assert json.loads(tolerant) == {"T": {"broker-a": {"0": -2}}}


def test_topics_that_are_no_longer_selected_have_no_seam(bolide_broker: Broker) -> None:
    end = read_offset(read_up_to(bolide_broker, "T", 9))
    OPEN.pop().stop()
    bolide_broker.create_topic("U", queues=1)
    assert where_live_begins({"namesrv": bolide_broker.namesrv_addr, "subscribe": "U"}, end) == "{}"
