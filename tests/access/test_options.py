"""Settings of access control: what fits together, and that no secret is quoted."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.access.options import AccessOptions
from bolide.access.users import Credentials
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"authorization_enabled": True}, "needs authenticationEnabled"),
        ({"authentication_whitelist": "10,x"}, "must be request codes"),
        ({"authorization_whitelist": "10;11"}, "must be request codes"),
        ({"authentication_whitelist": "10, 3004"}, "anyone could make users"),
        ({"init_authentication_user": '{"username":"u"}'}, "username and password"),
        ({"init_authentication_user": '{"username":" ","password":"p"}'}, "neither of them blank"),
        ({"inner_client_authentication_credentials": "s3cret"}, "accessKey and secretKey"),
        ({"inner_client_authentication_credentials": '{"accessKey":"a","secretKey":7}'}, "accessKey and secretKey"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        AccessOptions(**settings)
    assert "s3cret" not in str(refused.value)


def test_settings_are_parsed() -> None:
    options = AccessOptions(
        authentication_enabled=True,
        authorization_enabled=True,
        authentication_whitelist="28, 9999",
        authorization_whitelist="30,31",
        init_authentication_user='{"username":"u","password":"p"}',
        inner_client_authentication_credentials='{"accessKey":"a","secretKey":"s"}',
    )
    assert (options.unsigned_codes, options.free_codes) == ({28, 9999}, {30, 31})
    assert (options.first_user, options.inner_credentials) == (Credentials("u", "p"), Credentials("a", "s"))
    assert (AccessOptions().first_user, AccessOptions().inner_credentials) == (None, None)


def test_a_broker_that_others_reach_says_that_nobody_has_to_sign() -> None:
    (line,) = BrokerOptions.of(bind_address="0.0.0.0").warnings
    assert line.startswith("authenticationEnabled = false: any client that reaches 0.0.0.0 may do anything")
    assert BrokerOptions.of(bind_address="0.0.0.0", authentication_enabled=True).warnings == ()
    assert BrokerOptions.of(bind_address="::1").warnings == ()


def test_a_log_that_others_reach_is_named() -> None:
    reached: dict[str, Any] = {"bind_address": "0.0.0.0", "authentication_enabled": True, "fast_port_enable": "true"}
    for role in ("ASYNC_MASTER", "SYNC_MASTER"):
        (line,) = BrokerOptions.of(**reached, ha_listen_port=10912, broker_role=role).warnings
        assert line.startswith("clusterAuthenticationEnabled = false: any client that reaches haListenPort gets")
    proves = {
        "cluster_authentication_enabled": True,
        "inner_client_authentication_credentials": '{"accessKey":"a","secretKey":"s"}',
    }
    assert BrokerOptions.of(**reached, **proves, ha_listen_port=10912).warnings == ()
    assert BrokerOptions.of(**reached, broker_role="SLAVE", broker_id=1, ha_listen_port=10912).warnings == ()
