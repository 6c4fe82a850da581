"""The log of a query's batches: the first decision stands, survives a kill at any line, and one commits at a time."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from bolide.spark.errors import ClusterUnavailable
from bolide.spark.sink.batch_log import KEPT, BatchDecision, BatchLog, Swept, decided_batches
from bolide.spark.sink.half_handles import HalfHandle, Handles
from bolide.spark.source.queues import Queue
from proof.kit.waiting import PATIENCE

Q = Queue("T", "broker-a", 3)


def decision(*places: int) -> BatchDecision:
    handles = Handles()
    handles.extend(Q, [place // 100 for place in places], list(places))
    return BatchDecision(handles, {Q: 7}, ["dead.parquet"])


def test_the_first_decision_stands(tmp_path: Path) -> None:
    with BatchLog(str(tmp_path), "q").locked(1) as log:
        assert log.decided(4) is None
        assert log.decide(4, decision(100, 300))
        assert not log.decide(4, decision(200))
        found = log.decided(4)
        assert found == decision(100, 300)
        assert list(found.handles) == [HalfHandle(Q, 1, 100), HalfHandle(Q, 3, 300)]
        log.finish(4)
        assert log.decided(4) == BatchDecision(Handles(), {}, done=True)
    assert decided_batches(str(tmp_path)) == {("q", 4)}
    assert decided_batches(str(tmp_path / "absent")) == frozenset()


def test_old_batches_are_let_go(tmp_path: Path) -> None:
    with BatchLog(str(tmp_path), "q").locked(1) as log:
        for batch in range(3):
            log.decide(batch, decision(1))
        log.decide(KEPT + 1, decision(1))
        log.finish(KEPT + 1)
        assert log.decided(0) is None
        assert log.decided(1) is not None
        assert log.swept() is None
        log.note_swept(Swept("run", ["T"], {"broker-a": 5}))
        assert log.swept() == Swept("run", ["T"], {"broker-a": 5})


def test_a_commit_waits_for_the_one_before_it(tmp_path: Path) -> None:
    log = BatchLog(str(tmp_path), "q")
    entered = threading.Event()

    def later() -> None:
        with BatchLog(str(tmp_path), "q").locked(30):
            entered.set()

    with log.locked(1):
        thread = threading.Thread(target=later)
        thread.start()
        assert not entered.wait(0.3)
        with pytest.raises(ClusterUnavailable, match="locked by another commit"), log.locked(0):
            raise AssertionError("two commits at once")
    assert entered.wait(PATIENCE)
    thread.join()


def test_a_killed_committer_gives_the_lock_back_and_leaves_all_or_nothing(tmp_path: Path) -> None:
    for number, name in enumerate(("link", "fsync", "replace")):

        def die(*words: object, **more: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        pid = os.fork()
        if pid == 0:
            setattr(os, name, die)
            with BatchLog(str(tmp_path), "q").locked(1) as log:
                log.decide(number, decision(1))
                log.finish(number)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        with BatchLog(str(tmp_path), "q").locked(1) as log:
            found = log.decided(number)
            assert found == (decision(1) if name == "replace" else None)
            log.decide(number, decision(2))
            log.finish(number)
