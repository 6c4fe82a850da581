"""Every setting has a reader, words and RocketMQ's default; every key of RocketMQ is a setting or has a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.declaration import OURS, SAME, Setting, settings_of, text_of
from bolide.namesrv.options import NamesrvOptions
from bolide.node.settings.config import ALIASES
from bolide.node.settings.unkept import UNKEPT
from bolide.node.settings.without_effect import without_effect
from tests.option_reads import read_anywhere, stale, taken_live

KEYS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "protocol" / "settings.json").read_text(encoding="utf-8")
)
"""Of each release and daemon: key -> default, None where it depends on the machine."""
DAEMONS: Final = [(BrokerOptions, "broker"), (NamesrvOptions, "namesrv"), (ControllerOptions, "controller")]
MISSPELT: Final = {"mapedFileSizeConsumeQueueExt"}
"""Without effect in RocketMQ, too: its old documents spell it so."""


def keys_of(daemon: str) -> dict[str, str | None]:
    """Of both releases; the defaults of the newer."""
    return {**KEYS["4.9.7"].get(daemon, {}), **KEYS["5.5.0"][daemon]}


@pytest.mark.parametrize(("kind", "daemon"), DAEMONS)
def test_each_key_of_rocketmq_is_kept_refused_or_without_effect(kind: type[Struct], daemon: str) -> None:
    kept, idle = settings_of(kind).keys(), without_effect(kind).keys()
    assert keys_of(daemon).keys() - kept - idle - UNKEPT.keys() - ALIASES.keys() == set()
    assert idle - keys_of(daemon).keys() == (MISSPELT if kind is BrokerOptions else set())
    assert idle & (kept | UNKEPT.keys()) == set()


def differs(setting: Setting, theirs: str | None) -> bool:
    ours = text_of(setting.default)
    if setting.about.java not in (SAME, OURS):
        return theirs not in (None, setting.about.java) or theirs == ours
    return theirs not in (None, ours)


@pytest.mark.parametrize(("kind", "daemon"), DAEMONS)
def test_a_declaration_names_rocketmqs_default_where_it_is_another(kind: type[Struct], daemon: str) -> None:
    keys = keys_of(daemon)
    settings = settings_of(kind).values()
    assert [one.key for one in settings if one.key in keys and differs(one, keys[one.key])] == []
    elsewhere = set(ALIASES.values())  # RocketMQ takes them as system properties
    assert {one.key for one in settings if one.key not in keys} - elsewhere == {
        one.key for one in settings if one.about.java == OURS
    } - elsewhere


@pytest.mark.parametrize("kind", [BrokerOptions, NamesrvOptions, ControllerOptions])
def test_each_setting_has_a_reader(kind: type[Struct]) -> None:
    found = read_anywhere()
    assert [setting.key for setting in settings_of(kind).values() if setting.name not in found] == []


def test_each_live_setting_of_a_broker_is_taken_by_a_configure() -> None:
    taken = taken_live()
    live = [setting for setting in settings_of(BrokerOptions).values() if setting.about.live]
    assert len(live) == 34
    # The bounded ratios are properties of the options.
    by_property = {"disk_space_clean_forcibly_ratio": "clean_forcibly_ratio"}
    by_property |= {"disk_space_warning_level_ratio": "warning_ratio", "delete_when": "delete_hours"}
    assert [one.key for one in live if by_property.get(one.name, one.name) not in taken] == []


def test_no_service_goes_on_with_what_a_live_setting_was() -> None:
    live = {setting.name for setting in settings_of(BrokerOptions).values() if setting.about.live}
    live_of_names = {setting.name for setting in settings_of(NamesrvOptions).values() if setting.about.live}
    kept = stale()
    del kept["BrokerNode"]  # it puts the changed options in their place
    late = {name: fields & live for name, fields in kept.items() if name != "NamesrvNode"}
    assert {name: fields for name, fields in late.items() if fields} == {}
    assert kept["NamesrvNode"] & live_of_names == set()


@pytest.mark.parametrize("kind", [BrokerOptions, NamesrvOptions, ControllerOptions])
def test_each_setting_says_what_it_does(kind: type[Struct]) -> None:
    for setting in settings_of(kind).values():
        assert setting.about.text[-1] == "." and setting.about.section, setting.key
        assert "Java" not in setting.about.text, setting.key


def test_half_of_the_light_queues_is_named() -> None:
    assert BrokerOptions().warnings == BrokerOptions.of(enable_lmq=True, enable_multi_dispatch=True).warnings == ()
    assert BrokerOptions.of(enable_lmq=True).warnings[0].startswith("enableLmq alone lets no message")
    assert BrokerOptions.of(enable_multi_dispatch=True).warnings[0].startswith("enableMultiDispatch alone")
