"""A setting whose promise would not be kept stops the start and is named, wherever it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.settings.config import load_options, variable_name
from bolide.node.settings.unkept import OF_BROKERS, UNKEPT
from tests.node.brokers import options

BROKEN = {
    "migrateAuthFromV1Enabled": "true",
    "authenticationProvider": "com.example.Provider",
    "authenticationMetadataProvider": "com.example.Users",
    "authorizationProvider": "com.example.Provider",
    "authorizationMetadataProvider": "com.example.Policies",
    "tls.server.authClient": "true",
    "controllerDLegerPeers": "n0-127.0.0.1:9877",
    "enableDLegerCommitLog": "true",
    "enableControllerInNamesrv": "true",
    "storeType": "defaultRocksDB",
    "rocksdbCQDoubleWriteEnable": "true",
    "timerRocksDBEnable": "true",
    "transRocksDBEnable": "true",
    "filterServerNums": "1",
    "messageStorePlugIn": "com.example.Store",
    "readOnlyCommitLogStorePaths": "/mnt/old/commitlog",
    "defaultMessageRequestMode": "POP",
}


@pytest.mark.parametrize("key", sorted(OF_BROKERS))
def test_a_name_server_does_not_check_who_asks(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = true .flag. is not supported: a name server does not authenticate"):
        load_options(NamesrvOptions, {key: "true"}, None, {})
    both = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    assert load_options(BrokerOptions, both, None, {}).options.access.authorization_enabled


def test_each_key_is_tried() -> None:
    assert BROKEN.keys() | OF_BROKERS == UNKEPT.keys()


@pytest.mark.parametrize(("key", "text"), BROKEN.items())
def test_a_promise_that_would_not_be_kept_refuses_the_start(tmp_path: Path, key: str, text: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"brokerName=a\n{key} = {text}\n")
    with pytest.raises(ConfigError, match=rf"{key} = {text} \(file .*\) is not supported: .*; (set|leave) it"):
        load_options(BrokerOptions, {}, str(path), {})
    with pytest.raises(ConfigError, match=rf"{key} = {text} \(flag\) is not supported"):
        load_options(BrokerOptions, {key: text}, None, {})
    if "." not in key:  # no shell sets a variable with one
        with pytest.raises(ConfigError, match=rf"{key} = {text} \(variable BOLIDE_"):
            load_options(NamesrvOptions, {}, None, {variable_name(key): text})


@pytest.mark.parametrize(("key", "harmless"), [(key, harmless) for key, (harmless, _) in UNKEPT.items()])
def test_the_harmless_value_is_taken_without_a_word(tmp_path: Path, key: str, harmless: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"{key}={harmless}\n")
    assert load_options(BrokerOptions, {}, str(path), {}).warnings == []


@pytest.mark.parametrize("text", ["nonsense", "127.0.0.1", "127.0.0.1:9876;other", "127.0.0.1:70000", ":9876"])
async def test_a_name_server_that_is_no_address_refuses_the_start(tmp_path: Path, text: str) -> None:
    node = BrokerNode(options(tmp_path / "store", namesrv_addr=text))
    with pytest.raises(ConfigError, match="namesrvAddr = .* is not allowed: .* is not an address, write host:port"):
        await node.start()
    assert not (tmp_path / "store").exists()
