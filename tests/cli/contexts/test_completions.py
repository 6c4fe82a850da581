"""The names that a shell completes."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
import typer
from typer.core import TyperGroup

from bolide.cli.contexts import completions
from bolide.cli.contexts.completions import LIMIT_S, LIMIT_VARIABLE, _safe, limit
from bolide.cli.daemons.setting_keys import setting_keys
from bolide.cli.main import load
from bolide.client import Message
from bolide.layout.names import OFFSET_MOVED_EVENT
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.admin.buried import bury
from tests.cli.running import invoke
from tests.client.patient import Admin


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, str(PATIENCE))


def asked(line: str) -> typer.Context:
    """The context in which a shell completes the next word of a line."""
    command = typer.main.get_command(load())
    context = command.make_context("bolide", line.split()[1:], resilient_parsing=True)
    words = [*context._protected_args, *context.args]
    while isinstance(command, TyperGroup) and words:
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, found.make_context(name, words, parent=context, resilient_parsing=True)
        words = [*context._protected_args, *context.args]
    return context  # type: ignore[return-value]  # typer.Context is the same class


async def prepared(broker: Broker) -> str:
    async with Admin(broker.namesrv_addr) as admin:
        for topic in ("Orders", "Trials"):
            await admin.create_topic(topic, queues=1)
        await admin.create_group("audit")
    await bury(broker, "kitchen", Message("Orders", b"x"))
    return f"bolide topic show --namesrv {broker.namesrv_addr}"


def test_names_of_a_cluster(bolide_broker: Broker) -> None:
    here = asked(asyncio.run(prepared(bolide_broker)))
    assert completions.topics(here, "") == ["Orders", "Trials"]
    assert completions.topics(here, "T") == ["Orders", "Trials"]  # without TBW102
    assert {"%DLQ%kitchen", "%RETRY%kitchen"} <= set(completions.topics(here, "%"))
    assert OFFSET_MOVED_EVENT in completions.topics(here, "OFF")
    assert completions.topic_lists(here, "Orders,")[:2] == ["Orders,Orders", "Orders,Trials"]
    assert completions.groups(here, "") == ["audit", "kitchen"]
    assert completions.group_lists(here, "audit,k") == ["audit,audit", "audit,kitchen"]
    assert completions.groups_with_dead_letters(here, "") == ["kitchen"]
    assert completions.brokers(here, "") == ["broker-a"]
    assert completions.clusters(here, "") == ["DefaultCluster"]


def test_a_context_selects_the_cluster(
    bolide_broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("BOLIDE_NAMESRV_ADDR", raising=False)
    bolide_broker.create_topic("Orders")
    assert invoke("context", "add", "here", bolide_broker.namesrv_addr).exit_code == 0
    assert invoke("context", "add", "there", "127.0.0.1:1").exit_code == 0
    assert completions.contexts(asked("bolide context use"), "") == ["here", "there"]
    assert completions.topics(asked("bolide --context here topic show"), "") == ["Orders"]
    assert completions.topics(asked("bolide --context there topic show"), "") == []
    assert completions.topics(asked("bolide --context nowhere topic show"), "") == []


def test_a_silent_server_ends_the_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT_VARIABLE)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        assert completions.topics(asked(f"bolide topic show -n 127.0.0.1:{silent.getsockname()[1]}"), "") == []
        assert time.monotonic() - begin < 15  # the timeout of other commands for one request


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("", LIMIT_S), ("3", 3.0), ("0", LIMIT_S), ("nan", LIMIT_S), ("inf", LIMIT_S), ("x", LIMIT_S)],
)
def test_limit_of_a_look_up(given: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    assert limit() == seconds


def test_names_that_a_shell_would_run_are_left_out() -> None:
    names = ["Orders", "%DLQ%g", "a.b-c_d@e", "$(reboot)", "a|b", "a b", "`x`", "a;b", "*", "a\nb", "", "x'y", 'x"y']
    assert _safe(names) == ["%DLQ%g", "Orders", "a.b-c_d@e"]


@pytest.mark.parametrize(
    ("line", "has", "lacks"),
    [
        ("bolide broker --set", "storePathRootDir=", "enableAllTopicList="),
        ("bolide namesrv --set", "enableAllTopicList=", "storePathRootDir="),
        ("bolide controller --set", "controllerStore=", "storePathRootDir="),
        ("bolide cluster config broker-a --set", "fileReservedTime=", "storePathRootDir="),
        ("bolide config show controller --set", "controllerStore=", "storePathRootDir="),
        ("bolide config show --set", "storePathRootDir=", "controllerStore="),
    ],
)
def test_keys_of_settings(line: str, has: str, lacks: str) -> None:
    keys = setting_keys(asked(line), "")
    assert has in keys and lacks not in keys and all(key.endswith("=") for key in keys)
    assert setting_keys(asked("bolide config show nonsense"), "") == []
