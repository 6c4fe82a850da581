"""Which name servers and which credentials count: option, environment, context, default, in this order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bolide.cli.contexts.context_file import Context, Contexts, addresses_in_force, place, read_contexts, write_contexts
from bolide.errors import ArgumentError, ConfigError

VARIABLES = ("BOLIDE_NAMESRV_ADDR", "ROCKETMQ_NAMESRV_ADDR", "NAMESRV_ADDR", "ROCKETMQ_NAMESRV_DOMAIN")
KEYS = ("BOLIDE_ACCESS_KEY", "BOLIDE_SECRET_KEY")


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two contexts, of which one is in use, and an empty environment."""
    for name in (*VARIABLES, *KEYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    live = Context("live:1", "admin", "live-secret")
    write_contexts(Contexts("test", {"test": Context("test:1", "tester", "test-secret"), "live": live}))


def in_force(given: str = "", context: str = "") -> tuple[str, str, str]:
    """Addresses, user and password; and the environment is as it was afterwards."""
    before = dict(os.environ)
    addresses, undo = addresses_in_force(given, context)
    found = (addresses, *(os.environ.get(key, "") for key in KEYS))
    undo()
    assert dict(os.environ) == before
    return found


def test_an_option_counts_before_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "environment:1")
    assert in_force("given:1") == ("given:1", "", "")
    assert in_force(context="live") == ("live:1", "admin", "live-secret")
    with pytest.raises(ArgumentError, match="--namesrv and --context exclude each other"):
        addresses_in_force("given:1", "live")


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_environment_counts_before_the_context_in_use(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_force() == ("test:1", "tester", "test-secret")
    monkeypatch.setenv(variable, "environment:1")
    assert in_force() == ("", "", "")


def test_without_a_context_in_use_it_is_the_default() -> None:
    write_contexts(Contexts("", read_contexts().contexts))
    assert in_force() == ("", "", "")


def test_credentials_of_the_environment_count_before_those_of_the_context_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in zip(KEYS, ("mine", "my-secret"), strict=True):
        monkeypatch.setenv(key, value)
    assert in_force() == ("test:1", "mine", "my-secret")
    assert in_force(context="live") == ("live:1", "admin", "live-secret")
    assert in_force("given:1") == ("given:1", "mine", "my-secret")


def test_the_file_is_its_owners_only_and_others_are_refused() -> None:
    assert place().stat().st_mode & 0o777 == 0o600
    assert [each.name for each in place().parent.iterdir()] == ["contexts.json"]
    place().chmod(0o644)
    with pytest.raises(ConfigError, match="others may read it .mode 0644.: run chmod 600"):
        read_contexts()


@pytest.mark.parametrize("data", [b"", b"[]", b'{"contexts":{"a":{}}}', b'{"context":{}}', b'{"in_use":1}'])
def test_a_damaged_file_is_refused_by_name(data: bytes) -> None:
    place().write_bytes(data)
    with pytest.raises(ConfigError, match=f"{place()} is not a file of contexts"):
        read_contexts()


def test_without_a_configuration_folder_it_is_below_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert place() == tmp_path / ".config" / "bolide" / "contexts.json"
    assert read_contexts() == Contexts()


def test_a_password_is_in_no_text() -> None:
    assert "live-secret" not in repr(read_contexts())
