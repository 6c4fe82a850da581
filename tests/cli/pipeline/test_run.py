"""What a verb of `bolide pipeline` finds out before Spark starts."""

from __future__ import annotations

import pytest
import typer

from bolide.cli.pipeline.run import batch_source, check_read, check_write, cluster_from, read_from
from bolide.errors import ConfigError
from bolide.spark.errors import OptionError
from bolide.testing.broker import Broker

NOBODY = {"namesrv": "127.0.0.1:1"}


def test_tls_of_the_environment_becomes_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster_from("h:1", ["group=g"]) == {"namesrv": "h:1", "group": "g"}
    monkeypatch.setenv("BOLIDE_TLS_ENABLE", "true")
    monkeypatch.setenv("BOLIDE_TLS_CLIENT_TRUST_CERT_PATH", "ca.pem")
    blind = {"namesrv": "h:1", "tlsEnable": "true", "tlsClientAuthServer": "false"}
    assert cluster_from("h:1", []) == blind
    monkeypatch.setenv("BOLIDE_TLS_CLIENT_AUTH_SERVER", "true")
    assert cluster_from("h:1", []) == blind | {"tlsClientAuthServer": "true", "tlsClientTrustCertPath": "ca.pem"}
    assert cluster_from("h:1", ["tlsEnable=false"]) == {"namesrv": "h:1", "tlsEnable": "false"}


def test_options_are_looked_at_first() -> None:
    with pytest.raises(ConfigError, match="option colour is unknown"):
        read_from("127.0.0.1:1", "T", None, ["colour=red"])
    with pytest.raises(ConfigError, match="a stream has no end"):
        check_read({**NOBODY, "subscribe": "T", "endingOffsets": "latest"}, True)
    with pytest.raises(ConfigError, match="mode must be at-least-once or exactly-once"):
        check_write({**NOBODY, "mode": "often"}, "T", "checkpoint")


def test_unreachable_cluster_has_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        check_read({**NOBODY, "subscribePattern": "T.*"}, True)
    assert ended.value.exit_code == 3
    assert "name server at 127.0.0.1:1 did not respond in 3 rounds: cannot connect" in capsys.readouterr().err


def test_a_topic_that_is_not_there_is_told_as_what_it_means(bolide_broker: Broker) -> None:
    here = bolide_broker.namesrv_addr
    with pytest.raises(OptionError, match="topic None has no route: create it, check the name, or see if its broker"):
        check_write({"namesrv": here}, "None")
    with pytest.raises(OptionError, match="^nothing is traced$"):
        batch_source(here, "None", None, None, [], "nothing is traced")
    bolide_broker.create_topic("T")
    assert read_from(here, "T", None, []) == {"namesrv": here, "subscribe": "T"}
    assert read_from(here, None, "X.*", []) == {"namesrv": here, "subscribePattern": "X.*"}
