"""The comparison with Spark's Kafka source judges rightly, and what it fetches is pinned to the last jar."""

from __future__ import annotations

import re

import pytest
from bench.report.kafka_reads import Read, ratios, table
from bench.servers.kafka_broker import JARS

from proof.interop.java_artefacts import source_folder


def reads(case: str, *seconds: float) -> list[Read]:
    return [Read(case, number, 1000, taken, 0.002) for number, taken in enumerate(seconds, 1)]


def test_ratios_are_medians_of_those_of_the_rounds() -> None:
    found = reads("limit", 1.0, 1.0, 1.0) + reads("kafka", 2.0, 4.0, 8.0) + reads("ours", 4.0, 4.0, 4.0)
    assert ratios(found, "kafka") == {"limit": 4.0, "kafka": 1.0, "ours": 1.0}
    assert ratios(found, "limit") == {"limit": 1.0, "kafka": 0.25, "ours": 0.25}
    *_, ours = table(found, "kafka", "limit").splitlines()
    assert ours.split() == ["ours", "250", "1.00", "0.25", "2.00", "250", "250", "250"]


@pytest.mark.parametrize("name", [JARS, "spark-kafka-4.2.0"])
def test_required_jars_are_pinned(name: str) -> None:
    pinned = {line.split()[1] for line in (source_folder() / f"jars-{name}.sha256").read_text("ascii").splitlines()}
    pom = (source_folder() / name / "pom.xml").read_text("utf-8")
    asked = re.findall(r"<artifactId>([^*<]+)</artifactId><version>([^<]+)</version>", pom)
    assert asked and {f"{artefact}-{version}.jar" for artefact, version in asked} <= pinned
