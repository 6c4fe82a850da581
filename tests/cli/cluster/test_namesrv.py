"""`bolide namesrv`: key-value table and settings of name servers that run."""

from __future__ import annotations

import json

from click.testing import Result

from bolide.testing.broker import Broker
from tests.cli.running import invoke


def run(broker: Broker, *words: str) -> Result:
    return invoke("namesrv", *words, "-n", broker.namesrv_addr)


def test_values_are_put_listed_and_deleted(bolide_broker: Broker) -> None:
    for key, value in (("b", "2"), ("a", "1"), ("b", "3;4")):
        done = run(bolide_broker, "kv", "put", "NS", key, value)
        assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert json.loads(run(bolide_broker, "kv", "list", "NS", "--json").stdout) == [
        {"key": "a", "value": "1"},
        {"key": "b", "value": "3;4"},
    ]
    assert run(bolide_broker, "kv", "get", "NS", "b").stdout == "3;4\n"
    found = run(bolide_broker, "kv", "get", "NS", "b", "--json")
    assert json.loads(found.stdout) == {"namespace": "NS", "key": "b", "value": "3;4"}
    assert run(bolide_broker, "kv", "delete", "NS", "b", "--yes").exit_code == 0
    assert [row["key"] for row in json.loads(run(bolide_broker, "kv", "list", "NS", "--json").stdout)] == ["a"]


def test_missing_value_is_an_error(bolide_broker: Broker) -> None:
    for words in (("get", "NS", "none"), ("delete", "NS", "none", "--yes")):
        done = run(bolide_broker, "kv", *words)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == "bolide: there is no key none in namespace NS of the name servers\n"
    assert run(bolide_broker, "kv", "list", "NS", "--json").stdout.strip() == "[]"


def test_delete_asks_first(bolide_broker: Broker) -> None:
    run(bolide_broker, "kv", "put", "NS", "a", "1")
    done = invoke("namesrv", "kv", "delete", "NS", "a", "-n", bolide_broker.namesrv_addr, typed="n\n")
    assert done.exit_code == 1
    assert run(bolide_broker, "kv", "get", "NS", "a").stdout == "1\n"


def test_settings_are_shown_and_changed(bolide_broker: Broker) -> None:
    key = "deleteTopicWithBrokerRegistration"

    def shown() -> str:
        found = json.loads(run(bolide_broker, "config", "show", "--json").stdout)
        value: str = found[bolide_broker.namesrv_addr][key]
        return value

    assert shown() == "false"
    done = run(bolide_broker, "config", "set", f"{key}=true")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert shown() == "true"
    assert key in run(bolide_broker, "config", "show").stdout
    refused = run(bolide_broker, "config", "set", "listenPort=1")
    assert refused.exit_code == 1 and "listenPort" in refused.stderr
    wrong = run(bolide_broker, "config", "set", "oops")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "bolide: setting oops is not key=value; write for example orderMessageEnable=true\n",
    )


def test_flags_of_the_daemon_do_not_go_with_a_command(bolide_broker: Broker) -> None:
    words = ["namesrv", "--listen", "127.0.0.1:0", "kv", "list", "NS", "-n", bolide_broker.namesrv_addr]
    done = invoke(*words)
    assert done.exit_code == 2
    assert "leave them out of kv" in done.stderr


def test_name_server_that_is_gone_is_unreachable() -> None:
    done = invoke("namesrv", "kv", "get", "NS", "a", "-n", "127.0.0.1:1")
    assert done.exit_code == 3
