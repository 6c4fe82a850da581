"""The process: one line with its address, a clean end, and where it refuses to listen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from bolide.testing.broker import Broker
from proof.kit.waiting import PROCESS_PATIENCE


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "bolide", "console", *words]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_console_prints_its_address_and_ends_by_signal(bolide_broker: Broker, number: signal.Signals) -> None:
    words = command("--listen", "127.0.0.1:0", "-n", bolide_broker.namesrv_addr)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        address = console.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), console.communicate()
        with urlopen(address, timeout=PROCESS_PATIENCE) as page:
            assert b"The broker serves" in page.read()
        os.kill(console.pid, number)
        out, err = console.communicate(timeout=PROCESS_PATIENCE)
        assert (out, err, console.returncode) == ("", "", 0)


def test_others_reach_it_only_with_a_login_or_when_told(bolide_broker: Broker) -> None:
    words = command("--listen", "0.0.0.0:0", "-n", bolide_broker.namesrv_addr)
    done = subprocess.run(words, capture_output=True, text=True, timeout=PROCESS_PATIENCE)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert "has no users to log in" in done.stderr and "--without-login" in done.stderr
    with subprocess.Popen([*words, "--without-login"], stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        assert console.stdout.readline().startswith("http://0.0.0.0:")
        os.kill(console.pid, signal.SIGTERM)
        assert console.wait(PROCESS_PATIENCE) == 0


def test_a_cluster_with_users_needs_no_flag() -> None:
    user = '{"username":"admin","password":"admin-secret"}'
    with Broker(authentication_enabled=True, init_authentication_user=user) as broker:
        words = command("--listen", "0.0.0.0:0", "-n", broker.namesrv_addr)
        # Keys of the environment let nobody in.
        keys = {"BOLIDE_ACCESS_KEY": "admin", "BOLIDE_SECRET_KEY": "admin-secret"}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **keys}) as console:
            assert console.stdout is not None
            port = console.stdout.readline().strip().rstrip("/").rpartition(":")[2]
            with urlopen(f"http://127.0.0.1:{port}/topics", timeout=PROCESS_PATIENCE) as page:
                assert page.url.endswith("/login?next=%2Ftopics")
            os.kill(console.pid, signal.SIGTERM)
            assert console.wait(PROCESS_PATIENCE) == 0


def test_invalid_option_is_one_error(bolide_broker: Broker) -> None:
    for words, said in (
        (("--listen", bolide_broker.broker_addr), "cannot be used: Address already in use"),
        (("--listen", "nonsense"), "is not HOST:PORT"),
        (("--listen", "0.0.0.0:0", "-n", "127.0.0.1:1"), "no broker reports whether the cluster has users"),
        (("--listen", "127.0.0.1:0", "--certificate", __file__), "--certificate and --key require each other"),
        (("--listen", "127.0.0.1:0", "--certificate", __file__, "--key", __file__), "cannot be used"),
    ):
        done = subprocess.run(command(*words), capture_output=True, text=True, timeout=PROCESS_PATIENCE)
        assert done.returncode == 2 and said in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
