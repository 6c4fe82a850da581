"""The Java brokers that our client meets: 4.9.7 and 5.5.0."""

from __future__ import annotations

from typing import Any

import pytest

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION


def each_version(group: str) -> list[Any]:
    """Return both versions as parameters of a fixture. The tests of one version run in one worker."""
    versions = (OLD_BROKER_VERSION, BROKER_VERSION)
    return [pytest.param(version, marks=pytest.mark.xdist_group(f"{group}-{version}")) for version in versions]
