"""Requests about the engines that a Java broker may choose, and ours has one of."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.operator.engines import EngineService
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import NOW, Parts, reply_of


def asked(folder: Path, code: int, ext: dict[str, str], **settings: object) -> tuple[int, str | None]:
    parts = Parts(folder, **settings)
    try:
        answer = reply_of(EngineService(parts.options).handlers()[code](parts.channel, make_request(code, 1, ext), NOW))
        return answer.code, answer.remark
    finally:
        parts.close()


@pytest.mark.parametrize(
    ("ext", "answer"),
    [
        ({"E_T": "F"}, (codes.SUCCESS, "switch timer engine success")),
        ({"E_T": "R"}, (codes.INVALID_PARAMETER, "there is no timer engine on RocksDB here")),
        ({"E_T": "x"}, (codes.INVALID_PARAMETER, "param error")),
        ({}, (codes.INVALID_PARAMETER, "param error, extFields is null")),
    ],
)
def test_there_is_one_engine_for_timers(tmp_path: Path, ext: dict[str, str], answer: tuple[int, str]) -> None:
    assert asked(tmp_path, codes.SWITCH_TIMER_ENGINE, ext) == answer


def test_switching_the_engine_fails_if_timers_are_off(tmp_path: Path) -> None:
    found = asked(tmp_path, codes.SWITCH_TIMER_ENGINE, {"E_T": "F"}, timer_wheel_enable=False)
    assert found == (codes.INVALID_PARAMETER, "broker timerWheelEnable is false")


def test_tables_are_json_already(tmp_path: Path) -> None:
    code = codes.EXPORT_ROCKSDB_CONFIG_TO_JSON
    assert asked(tmp_path, code, {"configType": "topics;subscriptionGroups;"}) == (codes.SUCCESS, "export done.")
    assert asked(tmp_path, code, {"configType": "TOPICS"}) == (codes.SUCCESS, "export done.")
    refused, why = asked(tmp_path, code, {"configType": "topics;users"})
    assert refused == codes.SYSTEM_ERROR and why is not None and why.startswith("Unknown config type: users")


def test_a_master_ignores_how_far_it_is_on_disk_itself(tmp_path: Path) -> None:
    ext = {"masterFlushOffset": "0"}
    assert asked(tmp_path, codes.RESET_MASTER_FLUSH_OFFSET, ext) == (codes.SUCCESS, None)
