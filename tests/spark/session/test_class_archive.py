"""The archive of Spark's classes: where it is kept, when sessions load it, and what is deleted with time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bolide.spark.errors import OptionError
from bolide.spark.session import class_archive
from bolide.spark.session.class_archive import FOLDER_VARIABLE, Archive, archive_of, cache_folder, link_home, prepare


def package_folder(tmp_path: Path, name: str = "pyspark") -> Path:
    """What archives look at in a PySpark."""
    package = tmp_path / name
    for part in ("bin", "sbin", "jars"):
        (package / part).mkdir(parents=True)
    (package / "jars" / "a.jar").write_bytes(b"a")
    return package


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of archives, and a Java that exists."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(sys.executable)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path / "cache"


def test_each_set_of_jars_has_a_place_of_its_own(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = package_folder(tmp_path)
    first = archive_of(package)
    assert first is not None and first == archive_of(package) and not first.exists()
    assert first.path.is_relative_to(cache)
    os.utime(package / "jars" / "a.jar", (1, 1))
    assert first != archive_of(package)
    monkeypatch.setenv(FOLDER_VARIABLE, "off")
    assert cache_folder() is None
    assert archive_of(package) is None


def test_without_java_there_is_no_place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert archive_of(package_folder(tmp_path)) is None


def test_archives_of_changed_or_missing_jars_are_deleted(tmp_path: Path, cache: Path) -> None:
    package, other, gone = (package_folder(tmp_path, name) for name in ("pyspark", "other", "gone"))
    for key, of in (("old", package), ("gone", gone), ("other", other), ("new", package)):
        link_home(cache / key / "home", of)
        (cache / key / "classes.jsa").write_bytes(b"classes")
    (gone / "jars" / "a.jar").unlink()
    (gone / "jars").rmdir()
    class_archive.forget_others(Archive(cache / "new", package))
    assert sorted(os.listdir(cache)) == ["new", "other"]
    assert (package / "jars" / "a.jar").exists(), "links go, what they lead to stays"


def test_an_archive_that_exists_is_not_made_again(cache: Path) -> None:
    pytest.importorskip("pyspark")
    archive = archive_of(class_archive.spark_package())
    assert archive is not None
    archive.folder.mkdir(parents=True)
    archive.path.write_bytes(b"classes")
    found = prepare()
    assert (found.path, found.size, found.seconds) == (str(archive.path), 7, 0.0)


def test_a_java_that_makes_none_is_an_error_and_leaves_nothing(cache: Path) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(OptionError, match="no archive of Spark's classes was made"):
        prepare()  # this Java is a Python
    assert [path.name for path in cache.glob("*/*")] == ["home"]
