"""The manifests of deploy/ and of the documentation against the schemas of Kubernetes, which allow no unknown field."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT: Final = Path(__file__).parent.parent
SCHEMAS: Final = json.loads((ROOT / "tests" / "data" / "kubernetes.json").read_text(encoding="utf-8"))
"""Written by tools/take_kubernetes_schemas.py, which names the version."""
KEDA: Final = {
    "apiVersion", "kind", "metadata.name", "spec.scaleTargetRef.name", "spec.minReplicaCount", "spec.maxReplicaCount",
    "spec.cooldownPeriod", "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds",
    "spec.triggers.type", "spec.triggers.metricType", "spec.triggers.metadata.serverAddress",
    "spec.triggers.metadata.query", "spec.triggers.metadata.threshold", "spec.triggers.metadata.ignoreNullValues",
}  # fmt: skip
"""The fields of a ScaledObject in our example, compared by hand with KEDA's definition keda.sh_scaledobjects.yaml
(commit 756b2de7) and the documentation of its Prometheus scaler: no package of this project has that definition."""
FENCE: Final = re.compile(r"^( *)```ya?ml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every manifest of deploy/ and docs/, with its place."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "deploy").rglob("*.yaml"))]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for indent, block in FENCE.findall(page.read_text(encoding="utf-8")):
            texts.append((page, re.sub(f"^{indent}", "", block, flags=re.MULTILINE)))
    for path, text in texts:
        for document in yaml.safe_load_all(text):
            if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys():
                yield f"{path.relative_to(ROOT)} {document['kind']}", document


def faults(document: dict[str, Any]) -> list[str]:
    """Return the violations of the schema of its kind. Raises KeyError for an unknown kind."""
    kind = SCHEMAS["kinds"][f"{document['apiVersion']} {document['kind']}"]
    validator = Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": SCHEMAS["$defs"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def fields(value: object, place: str = "") -> Iterator[str]:
    """The dotted names of all fields with a plain value."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from fields(each, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for each in value:
            yield from fields(each, place)
    else:
        yield place


FOUND: Final = list(documents())
STANDARD: Final = [(place, each) for place, each in FOUND if f"{each['apiVersion']} {each['kind']}" in SCHEMAS["kinds"]]


def test_every_manifest_has_a_schema_or_a_list_of_fields() -> None:
    others = {each["kind"] for _, each in FOUND} - {each["kind"] for _, each in STANDARD}
    assert others == {"ScaledObject", "ScheduledSparkApplication"}
    used = {f"{each['apiVersion']} {each['kind']}" for _, each in STANDARD}
    assert used == set(SCHEMAS["kinds"]), "a kind that no manifest uses needs no schema"


@pytest.mark.parametrize(("place", "document"), STANDARD, ids=[place for place, _ in STANDARD])
def test_manifest_has_the_fields_of_its_schema(place: str, document: dict[str, Any]) -> None:
    assert faults(document) == []


@pytest.mark.parametrize(("place", "document"), STANDARD, ids=[place for place, _ in STANDARD])
def test_unknown_field_anywhere_is_found(place: str, document: dict[str, Any]) -> None:
    """Fields of users, such as labels and data, are the only ones without a fixed name."""
    of_users = {"labels", "matchLabels", "selector", "data", "requests", "limits", "annotations", "nodeSelector"}

    def objects(value: Any, name: str = "") -> Iterator[dict[str, Any]]:
        if isinstance(value, dict) and name not in of_users:
            yield value
        if isinstance(value, dict | list):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from objects(each, str(key))

    changed = copy.deepcopy(document)
    unnoticed = []
    for each in list(objects(changed)):
        each["notAField"] = "x"
        if not faults(changed):
            unnoticed.append(sorted(each))
        del each["notAField"]
    assert unnoticed == [] and faults(changed) == []


def test_scaled_object_has_only_fields_of_keda() -> None:
    scaled = [each for _, each in FOUND if each["kind"] == "ScaledObject"]
    assert scaled and all(each["apiVersion"] == "keda.sh/v1alpha1" for each in scaled)
    assert {name for each in scaled for name in fields(each)} == KEDA
