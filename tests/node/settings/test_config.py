"""Flag beats variable beats file beats default; what is wrong stops the start and says what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Struct

import bolide
from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.declaration import java_key
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.config import load_options, variable_name


def conf(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return str(path)


def test_the_nearest_source_wins_and_its_origin_is_kept(tmp_path: Path) -> None:
    path = conf(tmp_path, "listenPort=1\nbrokerName=file\nbrokerClusterName=file\n")
    environ = {"BOLIDE_LISTEN_PORT": "2", "BOLIDE_BROKER_NAME": "variable", "BOLIDE_IMPL": "auto"}
    loaded = load_options(BrokerOptions, {"listenPort": 3, "namesrvAddr": None}, path, environ)
    place = loaded.options.place
    assert (place.listen_port, place.broker_name, place.broker_cluster_name) == (3, "variable", "file")
    assert loaded.origins["listenPort"] == "flag"
    assert loaded.origins["brokerName"] == "variable BOLIDE_BROKER_NAME"
    assert loaded.origins["brokerClusterName"] == f"file {path}"
    assert loaded.origins["namesrvAddr"] == "default"
    assert loaded.warnings == []


def test_the_variables_of_rocketmq_name_servers_where_no_setting_does(tmp_path: Path) -> None:
    javas = {"NAMESRV_ADDR": "java:1", "ROCKETMQ_NAMESRV_ADDR": "property:2"}
    path = conf(tmp_path, "namesrvAddr=file:3\n")
    for environ, file, addr, origin in (
        ({"NAMESRV_ADDR": "java:1"}, None, "java:1", "variable NAMESRV_ADDR"),
        (javas, None, "property:2", "variable ROCKETMQ_NAMESRV_ADDR"),
        (javas, path, "file:3", f"file {path}"),
        ({**javas, "BOLIDE_NAMESRV_ADDR": "ours:4"}, path, "ours:4", "variable BOLIDE_NAMESRV_ADDR"),
    ):
        loaded = load_options(BrokerOptions, {}, file, environ)
        assert (loaded.options.registration.namesrv_addr, loaded.origins["namesrvAddr"]) == (addr, origin)
    assert load_options(NamesrvOptions, {}, None, javas).warnings == []


@pytest.mark.parametrize("kind", [BrokerOptions, NamesrvOptions, ControllerOptions])
def test_variables_of_other_daemons_do_not_warn(kind: type[Struct]) -> None:
    """The daemons of `bolide standalone` share an environment."""
    shared = {"BOLIDE_NAMESRV_ADDR": "a:1", "BOLIDE_CONTROLLER_STORE": "file:/x", "BOLIDE_KV_CONFIG_PATH": "/kv"}
    assert load_options(kind, {}, None, shared).warnings == []


def test_a_variable_that_another_part_of_bolide_reads_does_not_warn() -> None:
    """A user may export it for every program, such as `BOLIDE_REGISTRY` for `bolide consume`."""
    source = Path(bolide.__file__).parent
    texts = [path.read_text("utf-8") for path in source.rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'Final = "(BOLIDE_[A-Z_]+[A-Z])"', text)}
    assert {"BOLIDE_REGISTRY", "BOLIDE_SPARK_CACHE", "BOLIDE_TLS_ENABLE"} <= read
    read.remove("BOLIDE_MIRROR")  # a property of messages
    assert (
        load_options(BrokerOptions, {}, None, {**dict.fromkeys(read, ""), "BOLIDE_TLS_ENABLE": "false"}).warnings == []
    )


def test_acl_folder_is_below_the_home_of_rocketmq(tmp_path: Path) -> None:
    home = {"ROCKETMQ_HOME": "/opt/rocketmq"}
    loaded = load_options(BrokerOptions, {"aclEnable": True}, None, home)
    assert loaded.options.access.acl_folder == "/opt/rocketmq/conf"
    assert loaded.origins["aclFolder"] == "variable ROCKETMQ_HOME"
    given = load_options(BrokerOptions, {"aclEnable": True, "aclFolder": "/etc/acl"}, None, home)
    assert given.options.access.acl_folder == "/etc/acl"
    assert load_options(BrokerOptions, {}, None, home).options.access.acl_folder == ""
    with pytest.raises(ConfigError, match="needs aclFolder, .* or the variable ROCKETMQ_HOME"):
        load_options(BrokerOptions, {"aclEnable": True}, None, {})


def test_unknown_keys_warn(tmp_path: Path) -> None:
    loaded = load_options(BrokerOptions, {}, conf(tmp_path, "noSuchKey=1\n"), {"BOLIDE_NO_SUCH": "1"})
    assert len(loaded.warnings) == 2
    assert "'noSuchKey'" in loaded.warnings[0] and "BOLIDE_NO_SUCH" in loaded.warnings[1]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("listenPort=70000", r"listenPort = '70000' \(file .*\) is not allowed: .* from 0 to 65535 \(port\)"),
        ("listenPort=x", "a whole number"),
        ("listenPort=10_911", "listenPort = '10_911' .* a whole number"),
        ("flushDiskType=NEVER", "ASYNC_FLUSH or SYNC_FLUSH"),
        ("autoCreateTopicEnable=yes", "true or false"),
        ("registerNameServerPeriod=1", "from 10000 to 60000"),
    ],
)
def test_bad_values_name_key_value_and_what_is_allowed(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_options(BrokerOptions, {}, conf(tmp_path, line), {})


def test_a_number_may_have_a_sign_and_leading_zeros_as_in_java(tmp_path: Path) -> None:
    loaded = load_options(BrokerOptions, {}, conf(tmp_path, "listenPort=+010911\n"), {})
    assert loaded.options.place.listen_port == 10911


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no-such\.conf cannot be read"):
        load_options(BrokerOptions, {}, "no-such.conf", {})


def test_keys_are_javas() -> None:
    assert java_key("flush_disk_type") == "flushDiskType"
    assert java_key("broker_ip1") == "brokerIP1"
    assert variable_name("brokerIP1") == "BOLIDE_BROKER_IP1"
    assert variable_name("flushDiskType") == "BOLIDE_FLUSH_DISK_TYPE"


def test_javas_tls_properties_are_taken_for_ours(tmp_path: Path) -> None:
    path = conf(tmp_path, "tls.server.mode=enforcing\ntls.server.need.client.auth=require\n")
    loaded = load_options(BrokerOptions, None, path, {})
    assert (loaded.options.tls.tls_mode, loaded.options.tls.tls_need_client_auth) == ("enforcing", "require")
    assert loaded.warnings == []


@pytest.mark.parametrize(
    ("written", "key"), [("useTLS", "tlsEnable"), ("clientChannelExpiredTime", "channelExpiredTimeout")]
)
def test_another_name_of_a_setting_is_taken(written: str, key: str) -> None:
    text = "true" if key == "tlsEnable" else "60000"
    loaded = load_options(BrokerOptions, {written: text}, None, {})
    assert loaded.origins[key] == "flag"
    assert loaded.warnings == []
