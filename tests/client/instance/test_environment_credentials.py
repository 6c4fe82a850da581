"""Clients that are given no credentials sign with those of the environment."""

from __future__ import annotations

import pytest

from bolide.client.instance.environment_credentials import ACCESS_KEY, SECRET_KEY
from bolide.client.instance.options import ClientOptions
from bolide.client.messages.hooks import AclHook
from bolide.errors import ConfigError


def keys(options: ClientOptions) -> list[tuple[str, str]]:
    return [(hook.access_key, hook.secret_key) for hook in options.hooks if isinstance(hook, AclHook)]


def test_the_environment_signs_for_who_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys(ClientOptions.of("127.0.0.1:9876")) == []
    monkeypatch.setenv(ACCESS_KEY, "env")
    monkeypatch.setenv(SECRET_KEY, "s3cret")
    assert keys(ClientOptions.of("127.0.0.1:9876")) == [("env", "s3cret")]
    assert keys(ClientOptions.of("127.0.0.1:9876", access_key="own", secret_key="mine")) == [("own", "mine")]
    assert keys(ClientOptions.of("127.0.0.1:9876", hooks=(AclHook("hook", "its"),))) == [("hook", "its")]
    assert "s3cret" not in repr(ClientOptions.of("127.0.0.1:9876"))


@pytest.mark.parametrize("variable", [ACCESS_KEY, SECRET_KEY])
def test_single_credential_variable_is_rejected(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "s3cret")
    with pytest.raises(ConfigError, match="go together") as refused:
        ClientOptions.of("127.0.0.1:9876")
    assert "s3cret" not in str(refused.value)
