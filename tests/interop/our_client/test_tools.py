"""Commands of `bolide` at servers of Java 4.9.7 and 5.5.0: tables and settings of name servers, producers, stacks."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import Result

from proof.interop.matrix import OF_OURS, marked
from proof.kit.waiting import wait_until
from tests.cli.running import invoke
from tests.interop.our_client.java_cluster import JavaCluster

pytestmark = pytest.mark.java


def done(cluster: JavaCluster, *words: str) -> Result:
    """Run a command that succeeds."""
    result = invoke(*words, "-n", cluster.namesrv)
    assert result.exit_code == 0, result.output
    return result


def rows(cluster: JavaCluster, *words: str) -> list[dict[str, object]]:
    """Return the rows that a command prints as JSON."""
    found: list[dict[str, object]] = json.loads(done(cluster, *words, "--json").stdout)
    return found


@marked(OF_OURS, "key-value table of a name server")
def test_key_value_table(cluster: JavaCluster, topic: str) -> None:
    cluster.mqadmin.run("updateKvConfig", "-s", topic, "-k", "theirs", "-v", "1")
    done(cluster, "namesrv", "kv", "put", topic, "ours", "2;3")
    assert rows(cluster, "namesrv", "kv", "list", topic) == [
        {"key": "ours", "value": "2;3"},
        {"key": "theirs", "value": "1"},
    ]
    assert done(cluster, "namesrv", "kv", "get", topic, "theirs").stdout == "1\n"
    done(cluster, "namesrv", "kv", "delete", topic, "theirs", "--yes")
    cluster.mqadmin.run("deleteKvConfig", "-s", topic, "-k", "ours")
    for key in ("ours", "theirs"):
        gone = invoke("namesrv", "kv", "get", topic, key, "-n", cluster.namesrv)
        assert (gone.exit_code, "there is no key" in gone.stderr) == (1, True), gone.output
    assert rows(cluster, "namesrv", "kv", "list", topic) == []


@marked(OF_OURS, "settings of a name server")
def test_settings_of_a_name_server(cluster: JavaCluster) -> None:
    def shown() -> str:
        found = json.loads(done(cluster, "namesrv", "config", "show", "--json").stdout)
        value: str = found[cluster.namesrv]["orderMessageEnable"]
        return value

    assert shown() == "false"
    done(cluster, "namesrv", "config", "set", "orderMessageEnable=true")
    assert shown() == "true"
    assert re.search(r"orderMessageEnable +=  ?true", cluster.mqadmin.run("getNamesrvConfig", "-n", cluster.namesrv))
    done(cluster, "namesrv", "config", "set", "orderMessageEnable=false")
    assert shown() == "false"


@marked(OF_OURS, "producers of a topic")
def test_producers_of_a_topic(cluster: JavaCluster, topic: str) -> None:
    cluster.java.call("send", topic=topic, mode="sync", count=1)

    def listed() -> list[dict[str, object]]:
        return rows(cluster, "topic", "producers", topic, "--group", "interop_producer")

    wait_until(lambda: listed() != [], "a heartbeat of the producer")
    (row,) = listed()
    assert (row["group"], row["language"]) == ("interop_producer", "JAVA")
    assert "@" in str(row["client"])


@marked(OF_OURS, "stacks of a consumer")
def test_stacks_of_a_java_client(cluster: JavaCluster, topic: str) -> None:
    cluster.java.call("send", topic=topic, mode="sync", count=1)
    cluster.java.call("consume", group=topic, topic=topic)
    cluster.java.call("await", group=topic, count=1)
    shown = done(cluster, "group", "members", topic, "--stacks").stdout
    assert "ConsumeMessageThread_" in shown and "RebalanceService" in shown, shown
    (row,) = rows(cluster, "group", "members", topic, "--stacks")
    assert "java.lang.Thread" in str(row["stacks"]) and row["error"] is None
    cluster.java.call("stop", group=topic)
