"""What the executor counts of sends: how long they waited, and how many did not get into the log."""

from __future__ import annotations

from tests.node.loop.executing import NOW, SENDS, World


def test_how_long_sends_wait_and_how_many_fail_is_counted(world: World) -> None:
    times = world.executor.stats.put_times
    world.do(SENDS, world.store_one(wait=False))
    world.do(SENDS, world.store_one(), now=NOW - 30)
    world.turn()
    assert (sum(times.counts), times.longest) == (1, 0)
    world.flush()
    assert (sum(times.counts), times.total_ms, times.longest) == (2, 30, 30)
    world.do(SENDS, world.store_one())
    world.turn()
    world.executor.tick(NOW + 10_000)
    assert (sum(times.counts), times.longest) == (3, 10_000)
    world.files.full = True
    world.do(SENDS, world.store_one())
    world.turn()
    assert world.executor.stats.put_failed == 1 and sum(times.counts) == 3
    world.files.full = False
    world.do(SENDS, world.store_one())
    world.executor.refuse_parked("this broker is no master any more")
    assert world.executor.stats.put_failed == 1, "the disk took it"
    world.do(SENDS, world.store_one())
    world.executor.flush_failed(OSError("no sync"))
    assert world.executor.stats.put_failed == 2
