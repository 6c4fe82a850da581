"""Configuration by remote control."""

from __future__ import annotations

import pytest

from bolide.namesrv.effects import KeepSettings
from bolide.remoting import codes
from bolide.remoting.properties_text import read_properties
from tests.namesrv.peer import World


def test_config_is_shown_with_keys_of_java() -> None:
    shown = read_properties(
        World(support_acting_master=True, listen_port=19876).peer().ask(codes.GET_NAMESRV_CONFIG).body
    )
    assert shown["supportActingMaster"] == "true"
    assert shown["listenPort"] == "19876"
    assert shown["orderMessageEnable"] == "false"
    assert shown["configBlackList"] == "configBlackList;configStorePath;kvConfigPath"


def test_a_change_is_in_force_and_written() -> None:
    world = World()
    peer = world.peer()
    peer.ask(
        codes.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\nscanNotActiveBrokerInterval = 1000\nnobody=1\n"
    )
    assert world.server.settings.options.order_message_enable is True
    assert world.server.settings.options.scan_not_active_broker_interval == 1000
    (effect,) = world.server.take_effects()
    assert effect == KeepSettings({"orderMessageEnable": "true", "scanNotActiveBrokerInterval": "1000"})
    peer.ask(codes.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    peer.ask(codes.UPDATE_NAMESRV_CONFIG)
    assert world.server.take_effects() == []


@pytest.mark.parametrize(
    "key",
    ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "listenPort", "maxFrameSeconds", "mine"],
)
def test_keys_of_the_black_list_refuse_the_whole_update(key: str) -> None:
    world = World(config_black_list="configBlackList;configStorePath;kvConfigPath; mine")
    body = f"orderMessageEnable=true\n{key}=x\n".encode()
    response = world.peer().ask(codes.UPDATE_NAMESRV_CONFIG, body=body, expect=codes.NO_PERMISSION)
    assert str(response.remark).startswith("Can not update config in black list.") and key in str(response.remark)
    assert world.server.settings.options.order_message_enable is False


@pytest.mark.parametrize("text", [b"needWaitForService=maybe", b"scanNotActiveBrokerInterval=0", b"a=\\u12"])
def test_values_that_cannot_be_are_refused(text: bytes) -> None:
    world = World()
    before = world.server.settings.options
    world.peer().ask(codes.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n" + text, expect=codes.SYSTEM_ERROR)
    assert world.server.settings.options is before
    assert world.server.take_effects() == []
