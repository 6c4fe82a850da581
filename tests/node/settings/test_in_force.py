"""The record of a daemon's start: what is not a default, where it came from, and no secret."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.config import load_options
from bolide.node.settings.in_force import LONGEST, log_settings, settings_line
from bolide.remoting.live_options import SECRETS


def test_record_groups_settings_by_source(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=b\nbrokerClusterName=c\nlistenPort=10911\nflushDiskType=SYNC_FLUSH\n")
    loaded = load_options(
        BrokerOptions, {"listenPort": 7, "enableLmq": "true"}, str(path), {"BOLIDE_NAMESRV_ADDR": "127.0.0.1:9876"}
    )
    assert settings_line(loaded) == (
        f"settings that are not defaults: brokerClusterName = c, brokerName = b (file {path}); "
        "namesrvAddr = 127.0.0.1:9876 (variable BOLIDE_NAMESRV_ADDR); listenPort = 7, enableLmq = true (flag)"
    )


@pytest.mark.parametrize("kind", [BrokerOptions, NamesrvOptions, ControllerOptions])
def test_record_without_settings_says_so(kind: type[BrokerOptions]) -> None:
    assert settings_line(load_options(kind, {}, None, {})) == "settings: all have their defaults"


def test_record_masks_secrets_and_is_one_line() -> None:
    secret = "hunter2"
    user = f'{{"username":"ann","password":"{secret}"}}'
    account = f'{{"accessKey":"ann","secretKey":"{secret}"}}'
    given = {"initAuthenticationUser": user, "innerClientAuthenticationCredentials": account}
    given |= {key: secret for key in SECRETS if key not in given}
    line = settings_line(load_options(BrokerOptions, given, None, {}))
    assert secret not in line
    assert all(f"{key} = ******" in line for key in SECRETS)
    given = {"brokerName": "a\nb" + "x" * LONGEST, "namesrvAddr": f"http://ann:{secret}@host:1/list"}
    line = settings_line(load_options(BrokerOptions, given, None, {}))
    assert "\n" not in line and "brokerName = a?bx" in line and "xxx..." in line
    assert secret not in line and "namesrvAddr = http://******@host:1/list" in line


def test_warnings_come_before_the_record(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load_options(BrokerOptions, {"brokerName": "b"}, None, {"BOLIDE_NO_SUCH": "1"})
    with caplog.at_level(logging.INFO):
        log_settings(loaded, logging.getLogger("tests.in_force"))
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.records[1].getMessage() == "settings that are not defaults: brokerName = b (flag)"


@pytest.mark.parametrize("daemon", ["broker", "namesrv", "controller"])
def test_daemon_logs_its_settings(tmp_path: Path, daemon: str) -> None:
    """Each process is run until its port cannot be had, which is after the record."""
    command = [sys.executable, "-m", "bolide.node.processes", daemon]
    flags = '{"listenPort": 0, "bindAddress": "no such address", "logLevels": "INFO"}'
    done = subprocess.run(
        [*command, flags],
        input="",
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert "settings that are not defaults: " in done.stderr
    assert "bindAddress = no such address" in done.stderr and "(flag)" in done.stderr
