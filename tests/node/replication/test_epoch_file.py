"""The file of epochs: what a power cut leaves, and a bad one."""

from __future__ import annotations

import pytest

from bolide.node.replication.epoch_file import NAME, keep_epochs, load_epochs
from bolide.replication.epochs import Epoch, Epochs
from bolide.store.errors import StoreDamaged
from bolide.testing.files import SimulatedFiles, Stopped

PATH = f"/data/{NAME}"
ONE = Epochs([Epoch(1, 0)])
TWO = Epochs([Epoch(1, 0), Epoch(2, 2142)])


def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_dir("/data")
    files.sync_dir("/")
    return files


def test_no_file_is_no_epoch_and_what_is_kept_is_read() -> None:
    files = disk()
    assert load_epochs(files, PATH).entries == ()
    keep_epochs(files, PATH, ONE)
    keep_epochs(files, PATH, TWO)
    assert load_epochs(files, PATH).entries == TWO.entries
    assert files.read_file(PATH) == b"2\n1045321688\n1-0\n2-2142\n"


def test_the_file_before_is_not_read_where_this_one_is_bad_or_gone() -> None:
    files = disk()
    keep_epochs(files, PATH, ONE)
    keep_epochs(files, PATH, TWO)
    handle = files.open(PATH)
    files.write_at(handle, [b"9"], 0)
    files.close(handle)
    with pytest.raises(StoreDamaged, match="epochFileCheckpoint: it says that it holds 9 epochs, and holds 2"):
        load_epochs(files, PATH)
    files.remove(PATH)
    with pytest.raises(StoreDamaged, match="epochFileCheckpoint: it is gone; restore the file"):
        load_epochs(files, PATH)


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_leaves_the_old_file_or_the_new_one(seed: int) -> None:
    of = disk()
    keep_epochs(of, PATH, ONE)
    for stop in range(50):
        files = of.clone()
        files.stop_after = files.calls + stop
        try:
            keep_epochs(files, PATH, TWO)
            done = True
        except Stopped:
            done = False
        files.power_cut(seed)
        found = load_epochs(files, PATH).entries
        assert found in ((TWO.entries,) if done else (ONE.entries, TWO.entries))
        if done:
            return
