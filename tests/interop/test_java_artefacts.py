"""What is not the pinned jar is not run, and a machine that cannot fetch fails instead of doing without."""

import shutil
from pathlib import Path

import pytest

from proof.interop import java_artefacts
from proof.interop.java_artefacts import ArtefactError, cache_folder

pytestmark = pytest.mark.java

VERSION = "4.9.8"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own with the jars of the client."""
    java_artefacts.jars(VERSION)
    folder = tmp_path / "java" / VERSION
    shutil.copytree(cache_folder() / "java" / VERSION, folder)
    monkeypatch.setenv("BOLIDE_CACHE", str(tmp_path))
    return folder


def jars_uncached() -> Path:
    found: Path = java_artefacts.jars.__wrapped__(VERSION)
    return found


def test_the_pinned_jars_are_taken(copied: Path) -> None:
    assert jars_uncached() == copied


def test_a_changed_jar_is_refused(copied: Path) -> None:
    jar = copied / f"rocketmq-client-{VERSION}.jar"
    data = bytearray(jar.read_bytes())
    data[1000] ^= 1
    jar.write_bytes(data)
    with pytest.raises(ArtefactError, match="do not run it"):
        jars_uncached()


@pytest.mark.parametrize("change", ["one more", "one less"])
def test_another_set_of_jars_is_refused(copied: Path, change: str) -> None:
    jar = copied / f"rocketmq-common-{VERSION}.jar"
    if change == "one more":
        shutil.copy(jar, copied / "extra.jar")
    else:
        jar.unlink()
    with pytest.raises(ArtefactError, match="delete the folder"):
        jars_uncached()


def test_no_network_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "mvn"
    broken.write_text("#!/bin/sh\necho cannot reach the repository\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("BOLIDE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ArtefactError, match="is there a network"):
        jars_uncached()
