"""A copy of a store by hard links is refused; harmless second names are not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from tests.layout.records import message_of
from tests.store.parts import SHAPE, OwnFiles

NOW = 1_700_000_000_000


def filled(root: Path, messages: int = 40) -> MessageStore:
    """A store with several log files, queues and an index, closed cleanly."""
    store = MessageStore(OwnFiles(), str(root), SHAPE)
    store.load(NOW)
    for number in range(messages):
        store.append(message_of("T", bytes(200), f"UNIQ_KEY\x01k{number}\x02".encode()), NOW)
        store.write_pending()
        store.dispatch(1 << 16, NOW)
    store.close(NOW)
    return store


def start(root: Path) -> None:
    store = MessageStore(OwnFiles(), str(root), SHAPE)
    store.load(NOW + 1)
    store.close(NOW + 2)


def linked(root: Path, copy: Path) -> None:
    """``cp -al``, without `lock`."""
    shutil.copytree(root, copy, copy_function=os.link, ignore=shutil.ignore_patterns("lock"))


def test_copy_by_hard_links_is_refused_on_both_sides(tmp_path: Path) -> None:
    root, copy = tmp_path / "store", tmp_path / "copy"
    filled(root)
    linked(root, copy)
    before = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    for folder in (copy, root):
        with pytest.raises(StoreDamaged, match=r"has 2 names \(hard links\).*`cp -a`"):
            start(folder)
    assert {path: path.read_bytes() for path in before} == before
    shutil.rmtree(copy)
    start(root)


def test_copy_that_shares_nothing_starts(tmp_path: Path) -> None:
    root, link, copy = tmp_path / "store", tmp_path / "link", tmp_path / "copy"
    filled(root)
    linked(root, link)
    shutil.copytree(link, copy)
    start(copy)


@pytest.mark.parametrize("name", ["checkpoint", "commitlog", "consumequeue/T/0", "index"])
def test_each_file_that_is_written_counts(name: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    filled(root)
    path = root / name
    newest = path if path.is_file() else max(path.iterdir())
    os.link(newest, tmp_path / "other")
    with pytest.raises(StoreDamaged, match=str(newest)):
        start(root)


def test_sealed_files_of_the_log_may_be_linked(tmp_path: Path) -> None:
    root, snapshot = tmp_path / "store", tmp_path / "snapshot"
    filled(root)
    snapshot.mkdir()
    files = sorted((root / "commitlog").iterdir())
    used = [path for path in files if any(path.read_bytes()[:4])]
    assert len(used) > 2
    for path in used[:-1]:
        os.link(path, snapshot / path.name)
    start(root)


def test_table_that_is_one_with_its_backup_is_no_copy(tmp_path: Path) -> None:
    """A crash between the two renames of a replaced file leaves both names."""
    root = tmp_path / "store"
    filled(root)
    for name in ("store-format", "derived.json"):
        os.link(root / name, root / f"{name}.bak")
    start(root)


def test_deleted_topics_are_not_appended_to_their_backup(tmp_path: Path) -> None:
    """The same crash, in a file that is replaced at times and appended to otherwise."""
    root = tmp_path / "store"
    filled(root)
    store = MessageStore(OwnFiles(), str(root), SHAPE)
    store.load(NOW + 1)
    store.delete_topic("A")
    store.close(NOW + 2)
    name, backup = root / "deleted-topics", root / "deleted-topics.bak"
    os.link(name, backup)
    before = backup.read_bytes()
    store = MessageStore(OwnFiles(), str(root), SHAPE)
    store.load(NOW + 3)
    store.delete_topic("B")
    store.close(NOW + 4)
    assert backup.read_bytes() == before
    assert name.read_bytes().startswith(before)
    assert name.stat().st_nlink == 1
    start(root)
