"""Derived files that follow a log are those of a fresh rebuild, wherever the follower was killed on its way."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.layout.shape import StoreShape
from bolide.spark.dispatch.bitmaps import read_filters
from bolide.spark.dispatch.dispatch_job import DispatchJob, DispatchReport
from bolide.spark.dispatch.dispatch_state import DerivedState
from bolide.spark.dispatch.follow import Follower
from bolide.spark.dispatch.output_files import replace_file
from bolide.spark.dispatch.swap import CHECKPOINT, INVENTORY
from bolide.spark.errors import OptionError
from bolide.spark.store.durable import DurableEnd
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_stream import stretches_between
from proof.sequences.in_process import InProcess
from tests.golden.stores import golden_store
from tests.spark.dispatch.derived import contents

RUNNER: Any = InProcess()


def fresh(root: Path, shape: StoreShape, folder: Path) -> dict[str, bytes]:
    """What one rebuild of the whole log makes."""
    end = DurableEnd(root).find()
    stretches = stretches_between(root, 0, end, 1 << 20)
    job = DispatchJob(RUNNER, shape, read_filters(root, shape), str(folder / "parts"))
    state = job.run(stretches, DerivedState(), str(folder / "out"), DispatchReport("", ""), False)
    replace_file(str(folder / "out" / INVENTORY), state.inventory())
    replace_file(str(folder / "out" / CHECKPOINT), state.checkpoint(shape).encode())
    return contents(folder / "out")


def batches(root: Path, ends: list[int]) -> list[list[Stretch]]:
    return [stretches_between(root, a, b, 100_000) for a, b in itertools.pairwise([0, *ends])]


@pytest.mark.parametrize("name", ["5.5.0-clean", "4.9.7-ext"])
@pytest.mark.parametrize("index_entries", [0, 50], ids=["one", "many"])
def test_batches_add_up_to_a_rebuild(name: str, index_entries: int, tmp_path: Path) -> None:
    golden = golden_store(name)
    shape = golden.shape
    if index_entries:
        shape = replace(shape, index_slots=16, index_entries=index_entries)
    offsets = [entry["physicalOffset"] for entry in golden.log()]
    ends = [*offsets[7:80:9], *offsets[80::97], DurableEnd(golden.root).find()]
    for batch in batches(golden.root, ends):
        # A new follower each time: everything it knows is in its folder.
        done = Follower(str(golden.root), str(tmp_path / "out"), shape).apply(batch, RUNNER)
        assert done is not None
    follower = Follower(str(golden.root), str(tmp_path / "out"), shape)
    assert follower.apply(batches(golden.root, ends)[-1], RUNNER) is None
    assert contents(tmp_path / "out") == fresh(golden.root, shape, tmp_path)


def killed_at(step: int, out: Path, run: Any) -> bool:
    """Run in a process of its own that dies at the `step`-th time it opens or renames a file of the output."""
    child = os.fork()
    if child == 0:
        left = step

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal left
            if event in ("open", "os.rename", "os.remove") and str(args[0]).startswith(str(out)):
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(hook)
        try:
            run()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9)
    return code == 9


@pytest.mark.slow
def test_a_kill_at_any_write_harms_nothing(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-ext")
    shape = replace(golden.shape, index_slots=16, index_entries=300)
    offsets = [entry["physicalOffset"] for entry in golden.log()]
    planned = batches(golden.root, [offsets[40], offsets[41], offsets[200], DurableEnd(golden.root).find()])
    expected = fresh(golden.root, shape, tmp_path)
    out = tmp_path / "out2"
    rng = random.Random(5)
    kills = 0
    for round_number in range(6):
        shutil.rmtree(out, ignore_errors=True)
        for batch in planned:
            step = rng.randrange(1, 4)

            def one(batch: list[Stretch] = batch) -> None:
                Follower(str(golden.root), str(out), shape).apply(batch, RUNNER)

            # Each attempt gets a little further than the one before, until one comes through.
            while killed_at(step, out, one):
                kills += 1
                step += rng.randrange(1, 60)
        assert contents(out) == expected, f"round {round_number}"
    assert kills > 40


def test_follower_rejects_changed_settings_and_logs(tmp_path: Path) -> None:
    golden = golden_store("5.5.0-clean")
    Follower(str(golden.root), str(tmp_path / "out"), golden.shape)
    with pytest.raises(OptionError, match=r"was started with other settings \(index_slots\)"):
        Follower(str(golden.root), str(tmp_path / "out"), replace(golden.shape, index_slots=3))
    offsets = [entry["physicalOffset"] for entry in golden.log()]
    first, _, third = batches(golden.root, [offsets[40], offsets[80], offsets[120]])
    follower = Follower(str(golden.root), str(tmp_path / "out"), golden.shape)
    follower.apply(first, RUNNER)
    with pytest.raises(
        OptionError, match=f"ends at physical offset {offsets[40]} and the query continues at {offsets[80]}"
    ):
        follower.apply(third, RUNNER)
    (tmp_path / "other" / "index").mkdir(parents=True)
    with pytest.raises(OptionError, match="already has index, not created by following"):
        Follower(str(golden.root), str(tmp_path / "other"), golden.shape)
