"""Commits that move an offset back: who is counted, and how often the log says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bolide.broker.consumers.offsets import OffsetService
from bolide.broker.tables.backward_commits import LINES_PER_MINUTE, MINUTE_MS, BackwardCommits
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import NOW, Parts, reply_of, send_request

LOG = logging.getLogger("tests.backward_commits")
START = NOW // MINUTE_MS * MINUTE_MS


def note(commits: BackwardCommits, group: str, now: int) -> None:
    commits.note("T:0", group, before=9, offset=4, client="10.0.0.1:2", now=now)


def test_line_names_group_queue_offsets_and_client(caplog: pytest.LogCaptureFixture) -> None:
    counts: dict[str, int] = {}
    note(BackwardCommits(counts, LOG), "g", START)
    assert [record.getMessage() for record in caplog.records] == [
        "group g committed offset 4 of T:0 from 10.0.0.1:2, below its committed offset 9: it consumes the messages "
        "between them again (1 such commits since the start)"
    ]
    assert counts == {"g": 1}


def test_group_has_one_line_per_minute_and_all_groups_have_ten(caplog: pytest.LogCaptureFixture) -> None:
    counts: dict[str, int] = {}
    commits = BackwardCommits(counts, LOG)
    for second in range(60):
        note(commits, "g", START + second * 1000)
    assert len(caplog.records) == 1 and counts == {"g": 60}
    for number in range(100):
        note(commits, f"g{number}", START + MINUTE_MS - 1)
    assert len(caplog.records) == LINES_PER_MINUTE and len(counts) == 101
    note(commits, "g", START + MINUTE_MS)
    assert len(caplog.records) == LINES_PER_MINUTE + 1 and "(61 such commits" in caplog.text


def test_commits_of_clients_count_and_those_of_the_broker_do_not(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    counts = parts.stats.backward_commits
    parts.offsets.backward = BackwardCommits(counts, LOG)
    service = OffsetService(parts.options, parts.store, parts.offsets, parts.topics, parts.groups, parts.clients)

    def commit(offset: int) -> None:
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
        command = make_request(codes.UPDATE_CONSUMER_OFFSET, 1, ext)
        assert reply_of(service.handlers()[command.code](parts.channel, command, NOW)).code == codes.SUCCESS

    for _ in range(5):
        parts.answer(send_request())
    parts.pulled()
    for offset in (3, 3, 5):
        commit(offset)
    assert counts == {}
    commit(2)
    assert counts == {"g": 1}
    parts.pulled(sys_flag=0x5, commitOffset=1)
    assert counts == {"g": 2}
    assert parts.offsets.query("g", "T", 0) == 1
    parts.offsets.commit("g", "T", 0, 0, NOW)
    assert counts == {"g": 2}
    parts.offsets.assign_reset("g", "T", 0, 4, NOW)
    parts.offsets.assign_reset("g", "T", 0, 1, NOW)
    assert counts == {"g": 2}, "a reset is meant"
    parts.stats.forget_group("g")
    assert counts == {}
    parts.close()
