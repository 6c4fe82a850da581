"""The JVM of a session: when it starts without Spark's scripts, what is kept for that, and what when it fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bolide.spark.session import session
from bolide.spark.session.jvm import JAVA_OPTIONS, MEMORY, Jvm, is_plain, temporary_options
from bolide.spark.session.jvm_launch import FOLDER_VARIABLE, Kept, Launch, cache_folder, kept_for


@pytest.mark.parametrize(
    ("settings", "environment", "plain"),
    [
        ({"spark.sql.shuffle.partitions": "2", JAVA_OPTIONS: "-Xss2m"}, {"SPARK_HOME": "/x", "HOME": "/y"}, True),
        ({MEMORY: "4g"}, {}, True),
        ({}, {"SPARK_BUFFER_SIZE": "65536", "SPARK_AUTH_SOCKET_TIMEOUT": "15"}, True),
        ({MEMORY: "4 gb"}, {}, False),
        ({"spark.jars": "x.jar"}, {}, False),
        ({"spark.eventLog.enabled": "true"}, {}, False),
        ({}, {"SPARK_CONF_DIR": "/x"}, False),
        ({}, {"SPARK_LOCAL_DIRS": "/x"}, False),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--verbose pyspark-shell"}, False),
        ({}, {"HADOOP_CONF_DIR": "/x"}, False),
    ],
    ids=[
        "ours",
        "memory",
        "a session before",
        "memory of another form",
        "jars",
        "event log",
        "conf folder",
        "local folders",
        "arguments",
        "hadoop",
    ],
)
def test_what_only_sparks_scripts_know_is_left_to_them(
    settings: dict[str, str], environment: dict[str, str], plain: bool
) -> None:
    assert is_plain(settings, environment) == plain


def test_a_temporary_folder_too_long_for_a_socket_is_not_used(tmp_path: Path) -> None:
    assert temporary_options(tmp_path / ("long" * 20)) == []
    assert temporary_options(Path("/tmp")) in ([], ["-Djava.io.tmpdir=/tmp/tmp"])


def jar_folder(tmp_path: Path) -> Path:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    return jars


def test_each_set_of_jars_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(sys.executable)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    jars = jar_folder(tmp_path)
    first = kept_for(jars)
    assert first == kept_for(jars)
    os.utime(jars / "a.jar", (1, 1))
    assert first != kept_for(jars)
    monkeypatch.setenv(FOLDER_VARIABLE, "off")
    assert cache_folder() is None
    assert kept_for(jars) is None


def test_what_was_noted_is_started_again_with_the_archive_if_there_is_one(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "cache", "k", "java")
    assert kept.launch() is None
    kept.note("a.jar:b.jar", ["-Dx=y"])
    assert os.listdir(kept.folder) == ["k.json"]
    assert kept.launch() == Launch("java", "a.jar:b.jar", ["-Dx=y", "-Xshare:auto", "-Xlog:disable"])
    kept.archive.write_bytes(b"classes")
    shared = f"-XX:SharedArchiveFile={kept.archive}"
    assert kept.launch() == Launch("java", "a.jar:b.jar", ["-Dx=y", "-Xshare:auto", "-Xlog:disable", shared])
    assert kept.launch(archive=False) == Launch("java", "a.jar:b.jar", ["-Dx=y", "-Xshare:auto", "-Xlog:disable"])


def test_what_was_kept_for_jars_that_changed_or_are_gone_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    jars = [str(tmp_path / name) for name in ("a.jar", "b.jar", "c.jar")]
    for jar in jars:
        Path(jar).write_bytes(b"")
    for key, jar in (("old", jars[0]), ("gone", jars[1]), ("other", jars[2])):
        kept = Kept(folder, key, "java")
        kept.note(jar, [])
        kept.archive.write_bytes(b"classes")
    assert len(os.listdir(folder)) == 6
    Path(jars[1]).unlink()
    Kept(folder, "new", "java").note(jars[0], [])
    assert sorted(os.listdir(folder)) == ["new.json", "other.jsa", "other.json"]


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"java": "j"}'])
def test_a_record_that_tells_nothing_starts_nothing(tmp_path: Path, text: str) -> None:
    kept = Kept(tmp_path, "k", "java")
    kept.record.write_text(text, "utf-8")
    assert kept.launch() is None


def test_nothing_is_noted_with_options_of_the_users_java_or_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    Kept(tmp_path / "file" / "cache", "k", "java").note("a.jar", [])
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dx=y")
    Kept(tmp_path, "k", "java").note("a.jar", ["-Dx=y"])
    assert os.listdir(tmp_path) == ["file"]


def test_a_jvm_that_does_not_come_up_leaves_it_to_pyspark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    jvm = Jvm(Launch("/bin/false", "", []), {}, tmp_path / "jvm")
    assert not jvm.connect()
    assert os.listdir(tmp_path / "jvm") == []


def test_a_process_with_a_session_of_its_own_gets_no_home_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "theirs"))
    assert session.environment()["SPARK_HOME"] == str(tmp_path / "theirs")
    monkeypatch.delenv("SPARK_HOME")
    assert session._use_home(tmp_path / "ours", tmp_path / "package")
    assert os.environ["SPARK_HOME"] == str(tmp_path / "ours")
    assert "SPARK_HOME" not in session.environment()
