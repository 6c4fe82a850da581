"""A swap gives a store its new files, or leaves it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.spark.dispatch.swap import put_in, swap_in


def fill(folder: Path, text: str, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text("ascii") for p in sorted(folder.rglob("*")) if p.is_file()}


OLD = ("commitlog/0", "config/topics.json", "consumequeue/T/0/0", "consumequeue/gone/0/0", "checkpoint", "index/1")
NEW = ("consumequeue/T/0/0", "index/2", "checkpoint")


def test_old_files_go_new_ones_come_and_the_rest_stays(tmp_path: Path) -> None:
    store = fill(tmp_path / "store", "old", *OLD, "consumequeue_ext/T/0/0")
    swap_in(fill(store / "staged" / "new", "new", *NEW), store)
    kept = {name: text for name, text in contents(store).items() if not name.startswith("staged/")}
    assert kept == {"commitlog/0": "old", "config/topics.json": "old", **dict.fromkeys(NEW, "new")}


def test_a_killed_store_stays_marked(tmp_path: Path) -> None:
    store = fill(tmp_path / "store", "old", *OLD, "abort")
    swap_in(fill(store / "staged", "new", *NEW), store)
    assert (store / "abort").read_text("ascii") == "old"
    assert (store / "index" / "2").read_text("ascii") == "new"


@pytest.mark.parametrize("abort", [(), ("abort",)])
def test_a_swap_that_fails_at_its_last_rename_is_undone(tmp_path: Path, abort: tuple[str, ...]) -> None:
    store = fill(tmp_path / "store", "old", *OLD, *abort)
    before = contents(store)
    staged = fill(tmp_path / "staged", "new", "consumequeue/T/0/0", "consumequeue_ext/T/0/0", "index/2")
    with pytest.raises(FileNotFoundError):
        swap_in(staged, store)
    assert contents(store) == before
    assert not (store / "consumequeue_ext").exists()


def test_an_output_folder_gets_all_of_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put_in(fill(out / "staged", "new", *NEW), out)
    assert contents(out) == dict.fromkeys(NEW, "new")
