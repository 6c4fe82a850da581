"""The list of RocketMQ's settings is what its classes of both releases say."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from msgspec import Struct

from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.declaration import settings_of
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.without_effect import UNREAD, without_effect
from proof.interop.java_artefacts import BROKER_VERSION, compiled, jars, source_folder, tool
from proof.kit.waiting import PROCESS_PATIENCE

pytestmark = pytest.mark.java

ROCKETMQ = "org.apache.rocketmq"
NETTY = [f"{ROCKETMQ}.remoting.netty.NettyServerConfig", f"{ROCKETMQ}.remoting.netty.NettyClientConfig"]
CLASSES = {
    "broker": [f"{ROCKETMQ}.common.BrokerConfig", f"{ROCKETMQ}.store.config.MessageStoreConfig", *NETTY],
    "namesrv": [f"{ROCKETMQ}.common.namesrv.NamesrvConfig", *NETTY],
    "controller": [f"{ROCKETMQ}.common.ControllerConfig", *NETTY],
}
OPTIONS: dict[str, type[Struct]] = {
    "broker": BrokerOptions,
    "namesrv": NamesrvOptions,
    "controller": ControllerOptions,
}
ACCESS = f"{ROCKETMQ}.auth.config.AuthConfig"
LISTED = json.loads((Path(__file__).parents[1] / "data" / "protocol" / "settings.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("version", "daemon"),
    [(version, daemon) for version in LISTED for daemon in OPTIONS if daemon in LISTED[version]],
)
def test_the_listed_keys_are_rocketmqs(version: str, daemon: str) -> None:
    classes = list(CLASSES[daemon])
    if daemon == "broker" and version == BROKER_VERSION:
        classes.append(ACCESS)
    path = f"{jars(version)}/*"
    own = compiled("setting-keys", [source_folder() / "SettingKeys.java"], path)
    command = [tool("java"), "-cp", f"{own}:{path}", "SettingKeys", *classes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=True)
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if line.startswith("SETTING\t"):
            _, _, key, default = line.split("\t")
            found.setdefault(key, default)
    listed = LISTED[version][daemon]
    assert found.keys() == listed.keys()
    kept = settings_of(OPTIONS[daemon]).keys()
    assert {key: found[key] for key in kept & listed.keys() if listed[key] is not None} == {
        key: listed[key] for key in kept & listed.keys() if listed[key] is not None
    }


def readers_of(getters: set[bytes], version: str) -> set[bytes]:
    """The getters that a class other than a configuration names: in its constant pool, with their length in front."""
    named = {getter: b"\x01" + len(getter).to_bytes(2, "big") + getter for getter in getters}
    found: set[bytes] = set()
    for path in sorted(jars(version).glob("rocketmq-*.jar")):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.endswith(".class") and not name.endswith("Config.class"):
                    data = jar.read(name)
                    found |= {getter for getter, constant in named.items() if constant in data}
    return found


@pytest.mark.parametrize("version", LISTED)
def test_keys_without_a_reader_have_none_in_rocketmq(version: str) -> None:
    keys = {key for key, reason in without_effect(BrokerOptions).items() if reason == UNREAD}
    unread = keys & LISTED[version]["broker"].keys()
    assert unread
    getters = {f"{verb}{key[0].upper()}{key[1:]}".encode() for key in unread for verb in ("get", "is")}
    assert readers_of(getters, version) == set()
