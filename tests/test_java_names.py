"""The pages that translate RocketMQ's names list only modules of Bolide and names of its client that exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import bolide.client
from bolide.admin.client import Admin
from tests.client_classes import NATIVE
from tests.page_tables import sections

ROOT = Path(__file__).parent.parent
CLASSES = ROOT / "docs" / "concepts" / "rocketmq-classes.md"
CLIENT = ROOT / "docs" / "howto" / "from-java-client.md"
EVERY = [kind.__name__ for kind in NATIVE]
OWNERS = {
    "Every client": ["ConnectionOptions", *EVERY],
    "DefaultMQProducer": ["Producer"],
    "TransactionMQProducer": ["TransactionProducer"],
    "DefaultMQPushConsumer": ["PushConsumer"],
    "DefaultLitePullConsumer": ["PullConsumer"],
    "Message": ["Message"],
}
"""The classes whose constructors take the keywords of a section, written `name=`; each must take every one of them."""
NONE = "–"


MAPPED = [(heading, row) for heading, rows in sections(CLASSES).items() for row in rows]
TRANSLATED = [(heading, row) for heading, rows in sections(CLIENT).items() for row in rows]


def test_the_map_has_the_classes_that_readers_look_for() -> None:
    named = {name for _, row in MAPPED for name in re.findall(r"`(\w+)`", row[0])}
    assert len(named) > 150
    assert {"ReputMessageService", "PullRequestHoldService", "RouteInfoManager", "RebalanceImpl"} <= named


def test_no_class_is_on_the_map_twice() -> None:
    names = [name for _, row in MAPPED for name in re.findall(r"`([\w.…]+)`", row[0])]
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize(("heading", "row"), MAPPED, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_every_module_of_the_map_exists(heading: str, row: list[str]) -> None:
    if heading == "Without a counterpart":
        assert len(row) == 2
        assert row[1]
        return
    assert len(row) == 3, row
    modules = re.findall(r"`([^`]+)`", row[1])
    assert modules or row[1] == NONE, row
    missing = [name for name in modules if not (ROOT / "src" / "bolide" / name).is_file()]
    assert missing == []
    assert row[2], f"{row[0]}: say what differs"


@pytest.mark.parametrize(("heading", "row"), TRANSLATED, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_every_name_of_the_client_exists(heading: str, row: list[str]) -> None:
    assert len(row) == 3, row
    names = re.findall(r"`([^`]+)`", row[1])
    assert names or row[1] == NONE, row
    assert [name for name in names if not exists(name, OWNERS.get(heading, []))] == []


@pytest.mark.parametrize(("heading", "row"), TRANSLATED, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_row_without_a_counterpart_has_a_reason(heading: str, row: list[str]) -> None:
    assert row[1] != NONE or row[2], f"{heading}, {row[0]}"


def test_every_keyword_of_the_clients_is_on_the_page() -> None:
    page = CLIENT.read_text(encoding="utf-8")
    ours = {"codec", "world", "connection", "options", "self"}
    ours |= {"light_queues", "sharding_key", "value"}  # ours, or LMQ: a property in Java
    keywords = {name for owner in (*EVERY, "Message", "ConnectionOptions") for name in keywords_of(owner)}
    assert sorted(name for name in keywords - ours if f"{name}=" not in page) == []


def test_every_method_of_the_admin_object_on_the_page_exists() -> None:
    named = re.findall(r"`Admin\.(\w+)`", CLIENT.read_text(encoding="utf-8"))
    assert [name for name in named if not hasattr(Admin, name)] == []


def keywords_of(owner: str) -> set[str]:
    """The parameters of a class's constructor, or the keys of a TypedDict."""
    found: Any = getattr(bolide.client, owner)
    if owner.endswith("Options"):
        return set(found.__annotations__)
    return set(inspect.signature(found).parameters)


def exists(name: str, owners: list[str]) -> bool:
    """Whether the client has `keyword=value`, `Class`, `Class.member` or `Class.member(keyword=)`."""
    if keyword := re.fullmatch(r"(\w+)=.*", name):
        takers = [owner for owner in owners if keyword[1] in keywords_of(owner)]
        connection = owners != ["Message"] and keyword[1] in keywords_of("ConnectionOptions")
        return takers == owners or connection or ("ConnectionOptions" in owners and bool(takers))
    found = re.fullmatch(r"(\w+)(?:\.(\w+))?(?:\((\w+)=\w*\))?", name)
    if not found or found[1] not in bolide.client.__all__:
        return False
    target: Any = getattr(bolide.client, found[1])
    if found[2]:
        if not hasattr(target, found[2]) and found[2] not in getattr(target, "__annotations__", {}):
            return found[2] in getattr(target, "__slots__", ())
        target = getattr(target, found[2], None)
    return not found[3] or found[3] in inspect.signature(target).parameters
