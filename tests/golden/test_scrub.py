"""The scrub of a broker finds nothing wrong in stores that RocketMQ wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

from bolide.store.disk.files import RealFiles
from bolide.store.message_store import MessageStore
from bolide.store.options import ScrubOptions
from bolide.store.scrub.scrub import Phase, Scrub
from tests.golden.stores import GoldenStore

START = 1_900_000_000_000


def test_scrub_finds_nothing_in_a_store_of_rocketmq(golden: GoldenStore, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden.root, root)
    now = START
    store = MessageStore(RealFiles(), str(root), golden.shape)
    store.load(now)
    try:
        scrub = Scrub(store, ScrubOptions(), 1 << 40, lambda: 0.0, now)
        while scrub.status().phase is not Phase.RESTING:
            now = max(now + 1000, scrub.due(now) or 0)
            store.tick(now)
            for job in store.jobs():
                job.run()
                store.job_done(job)
            step = scrub.job(now)
            if step is not None:
                step.run()
                scrub.done(step, "", now)
        status = scrub.status()
        assert status.findings == []
        assert scrub.take_news() == []
        assert status.records == len(golden.log())
        assert status.entries > 0
    finally:
        store.close(now)
