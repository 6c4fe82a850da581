"""What the brokers of a set tell each other (905, 906)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.role import SLAVE
from bolide.broker.operator.members import MembersService
from bolide.node.routes.registrar import Place
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.namesrv import NotifyMinBrokerIdChangeRequestHeader
from bolide.remoting.headers.replication import ExchangeHAInfoRequestHeader
from tests.broker.parts import NOW, Parts, reply_of

MASTER_AT = ExchangeHAInfoRequestHeader(master_ha_address="10.0.0.1:10912", master_address="10.0.0.1:10911")


class Asked(Parts):
    """One broker."""

    def __init__(self, folder: Path, role: str = "ASYNC_MASTER", broker_id: int = 0) -> None:
        super().__init__(folder, broker_role=role, broker_id=broker_id)
        self.service = MembersService(self.store, self.role)
        self.heard: list[str] = []

    def hears(self) -> None:
        self.service.log_told = self.heard.append

    def exchange(self, header: ExchangeHAInfoRequestHeader) -> Command:
        request = make_request(codes.EXCHANGE_BROKER_HA_INFO, 1, header.to_ext())
        return reply_of(self.service.handlers()[request.code](self.channel, request, NOW))


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    made.close()


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path, SLAVE, 1)
    yield made
    made.close()


def test_a_master_that_serves_its_log_says_where(master: Asked) -> None:
    nothing = master.exchange(ExchangeHAInfoRequestHeader())
    assert nothing.code == codes.SUCCESS and nothing.ext() == {}
    master.service.place = Place("10.0.0.1:10911", "10.0.0.1:10912")
    assert master.exchange(ExchangeHAInfoRequestHeader()).ext() == {
        "masterHaAddress": "10.0.0.1:10912",
        "masterFlushOffset": "0",
        "masterAddress": "10.0.0.1:10911",
    }


def test_a_slave_hears_of_its_master_and_says_nothing_itself(slave: Asked) -> None:
    assert slave.exchange(MASTER_AT).ext() == {}
    slave.hears()
    slave.service.place = Place("a:1", "a:2")
    assert slave.exchange(MASTER_AT).code == codes.SUCCESS
    assert slave.heard == ["10.0.0.1:10912"]
    assert slave.exchange(ExchangeHAInfoRequestHeader()).ext() == {}


def test_a_master_follows_nobody_who_says_so(master: Asked) -> None:
    master.hears()
    master.exchange(MASTER_AT)
    assert master.heard == []


def test_a_word_of_a_name_server_is_a_reason_to_ask(slave: Asked) -> None:
    header = NotifyMinBrokerIdChangeRequestHeader(min_broker_id=1, min_broker_addr="10.9.9.9:1")
    request = make_request(codes.NOTIFY_MIN_BROKER_ID_CHANGE, 1, header.to_ext())
    heard: list[int] = []
    for notified in (None, lambda: heard.append(1)):
        slave.service.notified = notified
        answer = reply_of(slave.service.handlers()[request.code](slave.channel, request, NOW))
        assert answer.code == codes.SUCCESS
    assert heard == [1] and not slave.role.acting
