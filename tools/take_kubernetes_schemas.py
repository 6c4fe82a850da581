"""Writes tests/data/kubernetes.json: the published JSON schemas of the kinds of Kubernetes that deploy/ and docs/ use.

    pip download --no-deps kubernetes-validate==1.37.0
    python tools/take_kubernetes_schemas.py kubernetes_validate-1.37.0-py3-none-any.whl

The package contains the schemas of Kubernetes' OpenAPI specification, in a strict form that allows no unknown field. It
is 22 MB long, so the repository has the part that its tests need, without descriptions.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

OUTPUT: Final = Path(__file__).resolve().parent.parent / "tests" / "data" / "kubernetes.json"
VERSION: Final = "1.37.0"
KINDS: Final = {
    "v1 ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "v1 PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "v1 Service": "io.k8s.api.core.v1.Service",
    "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
    "apps/v1 StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
    "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
}
"""Definition of each kind, by `apiVersion kind`."""


def main(wheel: str) -> None:
    """Take the schemas from a wheel of kubernetes-validate."""
    place = f"kubernetes_validate/kubernetes-json-schema/v{VERSION}-local-strict/_definitions.json"
    with zipfile.ZipFile(wheel) as package:
        published = json.loads(package.read(place))["$defs"]
    taken: dict[str, Any] = {}
    names = sorted(KINDS.values())
    while names:
        name = names.pop()
        if name not in taken:
            taken[name] = without_texts(published[name])
            names += references(taken[name])
    comment = f"Kubernetes {VERSION}, Apache License 2.0; written by tools/take_kubernetes_schemas.py"
    lines = [f"{json.dumps(name)}: {json.dumps(taken[name], separators=(',', ':'))}" for name in sorted(taken)]
    text = f'{{"$comment": {json.dumps(comment)},\n"kinds": {json.dumps(KINDS)},\n"$defs": {{\n'
    OUTPUT.write_text(text + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    print(f"{OUTPUT.name}: {len(taken)} definitions")


def without_texts(schema: Any, of_fields: bool = False) -> Any:
    """Return a schema without descriptions, with references inside the file. `of_fields`: the keys are fields."""
    if isinstance(schema, list):
        return [without_texts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: without_texts(value, of_fields=key == "properties" and not of_fields)
        for key, value in schema.items()
        if of_fields or (key != "description" and not key.startswith("x-"))
    }
    if isinstance(kept.get("$ref"), str) and not of_fields:
        kept["$ref"] = re.sub("^.*#", "#", kept["$ref"])
    return kept


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        schema = list(schema.values())
    for each in schema if isinstance(schema, list) else ():
        yield from references(each)


if __name__ == "__main__":
    main(sys.argv[1])
