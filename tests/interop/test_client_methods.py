"""The page for users of RocketMQ's Java client names every public method of its producers and consumers."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, jars, tool
from proof.kit.waiting import PROCESS_PATIENCE
from tests.page_tables import sections

pytestmark = pytest.mark.java

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "from-java-client.md"
CLIENT = "org.apache.rocketmq.client"
SECTIONS = {
    f"{CLIENT}.ClientConfig": ("Every client",),
    f"{CLIENT}.producer.DefaultMQProducer": ("DefaultMQProducer", "Every client"),
    f"{CLIENT}.producer.TransactionMQProducer": ("TransactionMQProducer", "DefaultMQProducer"),
    f"{CLIENT}.consumer.DefaultMQPushConsumer": ("DefaultMQPushConsumer", "Every client"),
    f"{CLIENT}.consumer.DefaultLitePullConsumer": ("DefaultLitePullConsumer", "Every client"),
}
"""The classes, and the headings below which their methods are: a class may override a method of a superclass."""
METHOD = re.compile(r"^  public .*?(\w+)\(.*\)(?: throws .*)?;$", re.MULTILINE)
OF_OBJECT = {"equals", "hashCode", "toString"}


@cache
def methods(name: str) -> frozenset[str]:
    """Return the public methods and constructors that a class of RocketMQ's client declares."""
    jar = jars(BROKER_VERSION) / f"rocketmq-client-{BROKER_VERSION}.jar"
    command = [tool("javap"), "-public", "-cp", str(jar), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=True)
    return frozenset(METHOD.findall(done.stdout))


def getters(names: frozenset[str]) -> set[str]:
    """Return the getters among these methods whose setter, `setName` or `name`, is one of them."""
    fields = {name.removeprefix("set") for name in names} | {f"{name[0].upper()}{name[1:]}" for name in names}
    return {name for name in names if re.match("get|is", name) and re.sub("^(get|is)", "", name) in fields}


def named_below(headings: tuple[str, ...]) -> set[str]:
    """Return the Java names in the first cells of the tables below these headings."""
    tables = sections(PAGE)
    cells = [code for heading in headings for row in tables[heading] for code in re.findall(r"`([^`]+)`", row[0])]
    return {word for code in cells for word in re.findall(r"\w+", code)}


@pytest.mark.parametrize("name", SECTIONS)
def test_every_public_method_is_on_the_page(name: str) -> None:
    public = methods(name)
    assert any(method.startswith("set") for method in public), "javap lists the methods"
    wanted = public - getters(public) - OF_OBJECT - {name.rpartition(".")[2]}
    assert sorted(wanted - named_below(SECTIONS[name])) == []


def test_setters_on_the_page_exist() -> None:
    public = frozenset[str]().union(*(methods(name) for name in SECTIONS))
    named = {name for headings in SECTIONS.values() for name in named_below(headings) if re.match(r"set[A-Z]", name)}
    assert sorted(named - public) == []
