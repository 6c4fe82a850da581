"""`bolide context`, and commands that use one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.testing.broker import Broker
from tests.cli.access import guarded
from tests.cli.running import invoke

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs commands that have a configuration folder of their own, and nothing in the environment."""
    names = ("BOLIDE_NAMESRV_ADDR", "ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN")
    empty = dict.fromkeys((*names, "BOLIDE_ACCESS_KEY", "BOLIDE_SECRET_KEY"))

    def run(*words: str, code: int = 0, typed: str = "", **variables: str) -> str:
        env = {**empty, **variables, "XDG_CONFIG_HOME": str(tmp_path)}
        done = invoke(*words, **env, typed=typed)
        assert done.exit_code == code, done.output
        return done.output

    return run


def test_contexts_are_added_listed_used_shown_and_deleted(run: Run, tmp_path: Path) -> None:
    assert json.loads(run("context", "list", "--json")) == []
    run("context", "add", "test", "10.0.0.1:9876")
    run("context", "add", "live", "b:1;a:1", "--user", "admin", "--password-stdin", "--use", typed="live-secret\n")
    assert (tmp_path / "bolide" / "contexts.json").stat().st_mode & 0o777 == 0o600
    test = {"context": "test", "in_use": False, "name_servers": "10.0.0.1:9876", "user": "", "password": ""}
    live = {"context": "live", "in_use": True, "name_servers": "b:1;a:1", "user": "admin", "password": "******"}
    assert json.loads(run("context", "list", "--json")) == [live, test]
    assert json.loads(run("context", "show", "--json")) == live
    assert json.loads(run("context", "show", "test", "--json")) == test
    assert "the variable NAMESRV_ADDR is set, and counts instead" in run("context", "show", NAMESRV_ADDR="c:1")
    run("context", "use", "test")
    assert json.loads(run("context", "show", "--json"))["context"] == "test"
    run("context", "use", "--none")
    assert "no context is in use" in run("context", "show", code=1)
    run("context", "delete", "live")
    assert [row["context"] for row in json.loads(run("context", "list", "--json"))] == ["test"]


def test_invalid_context_is_reported(run: Run, tmp_path: Path) -> None:
    run("context", "add", "test", "a:1")
    assert "there is a context test: delete it first" in run("context", "add", "test", "b:1", code=1)
    assert "host:port" in run("context", "add", "other", "nonsense", code=2)
    assert "'a\\nb' is not a valid name of a context" in run("context", "add", "a\nb", "b:1", code=2)
    assert "write --user as well" in run("context", "add", "other", "b:1", "--password-stdin", code=2)
    asked = run("context", "add", "other", "b:1", "--user", "u", code=2)
    assert "cannot prompt for the password without a terminal" in asked
    for words in (["use"], ["use", "test", "--none"]):
        assert "give the name of a context, or --none" in run("context", *words, code=2)
    for words in (["context", "use"], ["context", "show"], ["context", "delete"]):
        assert "there is no context nobody; known contexts: test" in run(*words, "nobody", code=2)
    assert "there is no context nobody" in run("--context", "nobody", "topic", "list", code=2)
    assert "exclude each other" in run("--context", "test", "topic", "list", "-n", "b:1", code=2)
    (tmp_path / "bolide" / "contexts.json").chmod(0o640)
    for words in (["context", "list"], ["topic", "list"], ["--context", "test", "topic", "list"]):
        assert "others may read it (mode 0640): run chmod 600" in run(*words, code=2)


def test_a_command_asks_the_name_servers_that_count(run: Run, bolide_broker: Broker) -> None:
    there = bolide_broker.namesrv_addr
    run("context", "add", "nowhere", "127.0.0.1:1")
    run("context", "add", "there", there)
    run("context", "use", "nowhere")
    run("topic", "list", code=3)
    run("topic", "list", NAMESRV_ADDR=there)
    run("topic", "list", "-n", there)
    run("--context", "there", "topic", "list", NAMESRV_ADDR="127.0.0.1:1")
    run("context", "use", "there")
    run("topic", "list")
    run("topic", "list", "-n", "127.0.0.1:1", code=3)


def test_a_context_signs_for_its_cluster_only(run: Run) -> None:
    with guarded() as signed:
        there = signed.broker.namesrv_addr
        words = ["--user", "admin", "--password-stdin", "--use"]
        run("context", "add", "guarded", there, *words, typed="admin-secret\n")
        assert [row["user"] for row in json.loads(run("user", "list", "--json"))] == ["admin"]
        assert "username cannot be null" in run("user", "list", "-n", there, code=1)
        assert "username cannot be null" in run("user", "list", NAMESRV_ADDR=there, code=1)
        wrong = {"BOLIDE_ACCESS_KEY": "admin", "BOLIDE_SECRET_KEY": "wrong"}
        assert "check signature failed" in run("user", "list", code=1, **wrong)
        run("--context", "guarded", "user", "list", **wrong)
