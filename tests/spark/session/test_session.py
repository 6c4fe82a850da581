"""What a local session tells Spark, and that a SPARK_HOME set by the user is kept."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from bolide.spark.session import session
from bolide.spark.session.class_archive import FOLDER_VARIABLE, archive_of, spark_package
from bolide.spark.session.session import JAVA_OPTIONS, QUICK_START, temporary_options

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME is unset, and archives have a folder of this test's own."""
    monkeypatch.setenv("SPARK_HOME", "")
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))


def test_a_temporary_folder_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    assert temporary_options(tmp_path / ("long" * 20)) == []


def test_a_process_with_a_session_of_its_own_gets_no_home_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "theirs"))
    assert session.environment()["SPARK_HOME"] == str(tmp_path / "theirs")
    monkeypatch.delenv("SPARK_HOME")
    assert session._use_home(tmp_path / "ours", tmp_path / "package")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "ours")
    assert "SPARK_HOME" not in session.environment()


@pytest.mark.spark
def test_an_archive_is_loaded_once_it_exists_and_with_its_own_home(tmp_path: Path) -> None:
    plain = session._settings("local[1]", QUICK_START, tmp_path / "a")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "a" / "spark-home")
    assert "SharedArchiveFile" not in plain[JAVA_OPTIONS]
    archive = archive_of(spark_package())
    assert archive is not None
    archive.folder.mkdir(parents=True)
    archive.path.write_bytes(b"classes")
    prepared = shlex.split(session._settings("local[1]", QUICK_START, tmp_path / "b")[JAVA_OPTIONS])
    assert f"-XX:SharedArchiveFile={archive.path}" in prepared
    assert prepared[: len(QUICK_START[JAVA_OPTIONS].split())] == QUICK_START[JAVA_OPTIONS].split()
    assert os.environ["SPARK_HOME"] == str(archive.home)


@pytest.mark.spark
def test_a_home_of_the_users_is_kept_and_gets_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(spark_package())
    assert archive is not None
    archive.folder.mkdir(parents=True)
    archive.path.write_bytes(b"classes")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "theirs"))
    settings = session._settings("local[1]", {}, tmp_path / "a")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "theirs")
    assert "SharedArchiveFile" not in settings[JAVA_OPTIONS]


def test_a_cluster_gets_no_settings_of_this_machine() -> None:
    settings = session._settings("spark://master:7077", {"spark.x": "y"}, None)
    assert settings["spark.x"] == "y" and JAVA_OPTIONS not in settings and "spark.driver.host" not in settings
