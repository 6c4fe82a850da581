"""Half messages of a set without a master: the acting slave hands them to other sets, where they are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolide.broker.core.role import SLAVE, Role
from bolide.broker.transactions.halves_away import HalvesAway
from bolide.broker.transactions.transactions import COMMIT
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.sysflag import TRANSACTION_PREPARED
from tests.broker.transaction_parts import INTERVAL_MS, Transactions


class Acting(Transactions):
    """The broker is its own slave from `act` on: it has the log that it wrote."""

    def act(self, may_escape: bool = True) -> None:
        self.role = self.writer.role = Role(SLAVE, 1, may_act=True, may_escape=may_escape)
        self.halves_away = HalvesAway(self.options, self.role, self.store, self.service.halves, self.effects)
        self.least(1)

    def least(self, number: int) -> None:
        assert self.role.least_is(number)
        self.service.role_changed(self.role, self.now)
        self.halves_away.role_changed(self.role, self.now)

    def away(self, milliseconds: int) -> list[tuple[BrokerMessage, Callable[[str, int], None]]]:
        """Let time pass; what was to be sent to other sets."""
        found = []
        stop = self.now + milliseconds
        assert self.service.due(self.now) is None, "nobody is asked here"
        while (due := self.halves_away.due(self.now)) is not None and due <= stop:
            self.now = max(self.now, due)
            self.halves_away.tick(self.now, 1000)
            found += self.effects.take().aways
            self.settle()
        self.now = stop
        return found


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Acting]:
    made = Acting(tmp_path)
    yield made
    made.close()


def test_what_is_open_is_handed_over_and_what_has_ended_is_not(parts: Acting) -> None:
    first, _, _ = parts.half(UNIQ_KEY="A"), parts.half(UNIQ_KEY="B"), parts.half(UNIQ_KEY="C")
    assert parts.code(first, COMMIT) == 0
    records = len(parts.records("RMQ_SYS_TRANS_HALF_TOPIC")), len(parts.ops())
    parts.act()
    assert parts.away(INTERVAL_MS - 1) == [], "the master may be back soon"
    found = parts.away(1)
    assert [message.properties.get("UNIQ_KEY") for message, _ in found] == ["B", "C"]
    for message, _ in found:
        assert message.topic == "T" and message.sys_flag & TRANSACTION_PREPARED
        assert message.properties.get("TRAN_MSG") == "true" and message.properties.get("PGROUP") == "pg"
    found[1][1]("", parts.now)
    found[0][1]("refused", parts.now)
    parts.away(400)
    assert parts.progress()[0] == 1, "the second has not arrived"
    ((again, then),) = parts.away(300)
    assert again.properties.get("UNIQ_KEY") == "B"
    then("", parts.now)
    assert parts.away(3 * INTERVAL_MS) == []
    assert parts.progress()[0] == 3
    assert (len(parts.records("RMQ_SYS_TRANS_HALF_TOPIC")), len(parts.ops())) == records, "nothing is stored here"


def test_who_may_not_send_elsewhere_leaves_them_to_the_master(parts: Acting) -> None:
    parts.half()
    parts.act(may_escape=False)
    assert parts.away(3 * INTERVAL_MS) == []


def test_a_report_after_the_master_is_back_ends_nothing(parts: Acting) -> None:
    parts.half()
    parts.act()
    ((_, then),) = parts.away(INTERVAL_MS)
    parts.least(0)
    then("", parts.now)
    assert parts.away(3 * INTERVAL_MS) == []
    parts.least(1)
    assert len(parts.away(INTERVAL_MS)) == 1, "it is still open"


def test_damaged_half_message_is_not_handed_over(parts: Acting) -> None:
    parts.half(UNIQ_KEY="A")
    parts.half(UNIQ_KEY="B")
    parts.damage("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    parts.act()
    found = parts.away(INTERVAL_MS)
    assert [message.properties.get("UNIQ_KEY") for message, _ in found] == ["B"]
    assert "does not match its CRC" in parts.store.maintenance.take_problem()
