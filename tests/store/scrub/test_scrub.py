"""The scrub of a store that changes, restarts and fails: what it resumes, drops and reports."""

from __future__ import annotations

import pytest

from bolide.store.disk.files import FileFailed
from bolide.store.options import ScrubOptions
from bolide.store.scrub.scrub import Phase, ScrubJob
from bolide.store.scrub.state import NAME, decode_state, encode_state
from tests.store.scenario import ROOT, missing
from tests.store.scrub.scrubbed import (
    MINUTE,
    SEGMENT,
    WEEK,
    YEAR,
    Scrubbed,
    filled,
    flip,
    log_place,
    only,
    unit_place,
)


def test_finding_of_a_repaired_file_disappears_with_the_next_pass() -> None:
    scrubbed = filled()
    path, position = log_place(scrubbed.machine.acknowledged[3].at.physical_offset)
    flip(scrubbed, path, position + 90)
    only(scrubbed.one_pass())
    scrubbed.news.clear()
    scrubbed.machine.now += WEEK
    only(scrubbed.one_pass())
    assert scrubbed.news == [], "a finding is reported once, not once per pass"
    flip(scrubbed, path, position + 90)
    scrubbed.machine.now += WEEK
    assert scrubbed.one_pass() == []


def test_finding_in_a_deleted_log_file_disappears() -> None:
    scrubbed = filled()
    path, position = log_place(scrubbed.machine.acknowledged[3].at.physical_offset)
    flip(scrubbed, path, position + 90)
    only(scrubbed.one_pass())
    scrubbed.machine.store.log.segments.delete_before(SEGMENT)
    assert scrubbed.scrub.status().findings == []


def test_finding_in_a_queue_of_a_deleted_topic_disappears() -> None:
    scrubbed = filled()
    path, position = unit_place(scrubbed.machine.acknowledged[3])
    flip(scrubbed, path, position)
    only(scrubbed.one_pass())
    scrubbed.machine.store.delete_topic("T")
    assert scrubbed.scrub.status().findings == []


def test_pass_whose_files_are_all_deleted_is_complete() -> None:
    scrubbed = filled()
    while scrubbed.scrub.status().done < SEGMENT:
        scrubbed.step()
    machine = scrubbed.machine
    machine.turn(60)
    target = scrubbed.scrub.status().total
    machine.store.log.segments.delete_before(target + SEGMENT)
    machine.store.queues.begin_at(int(machine.store.log.segments.min_offset))
    assert machine.store.log.segments.min_offset > target
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().passes == 1


def test_pass_whose_end_is_truncated_is_complete() -> None:
    scrubbed = filled()
    machine = scrubbed.machine
    while scrubbed.scrub.status().done < 2 * SEGMENT:
        scrubbed.step()
    end = int(machine.acknowledged[10].at.physical_offset)
    machine.store.log_cut.check(end)
    machine.store.log_cut.run(end, machine.now)
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().passes == 1


def test_topic_deleted_during_a_pass_is_not_damage() -> None:
    for steps in range(14):
        scrubbed = filled()
        for _ in range(steps):
            scrubbed.step()
        job = running(scrubbed)
        scrubbed.machine.store.delete_topic("T")
        finish(scrubbed, job)
        assert (scrubbed.one_pass(), scrubbed.news) == ([], []), steps


def test_log_file_deleted_during_a_pass_is_not_damage() -> None:
    for steps in range(14):
        scrubbed = filled()
        for _ in range(steps):
            scrubbed.step()
        job = running(scrubbed)
        scrubbed.machine.store.log.segments.delete_before(2 * SEGMENT)
        scrubbed.machine.store.queues.begin_at(2 * SEGMENT)
        scrubbed.machine.store.maintenance.clean_derived()
        finish(scrubbed, job)
        assert (scrubbed.one_pass(), scrubbed.news) == ([], []), steps


def test_log_truncated_during_a_pass_is_not_damage() -> None:
    for steps in range(14):
        scrubbed = filled()
        machine = scrubbed.machine
        for _ in range(steps):
            scrubbed.step()
        job = running(scrubbed)
        end = int(machine.acknowledged[60].at.physical_offset)
        machine.store.log_cut.check(end)
        machine.store.log_cut.run(end, machine.now)
        job.run()
        machine.turn(30)  # other records at the same offsets
        scrubbed.seal()
        scrubbed.scrub.done(job, "", machine.now)
        assert (scrubbed.one_pass(), scrubbed.news) == ([], []), steps


def running(scrubbed: Scrubbed) -> ScrubJob:
    """A job that the loop has planned and the pool has not begun."""
    for _ in range(100):
        due = scrubbed.scrub.due(scrubbed.machine.now)
        assert due is not None
        scrubbed.machine.now = max(scrubbed.machine.now, due)
        job = scrubbed.scrub.job(scrubbed.machine.now)
        if job is not None:
            return job
    raise AssertionError("no job")


def finish(scrubbed: Scrubbed, job: ScrubJob) -> None:
    job.run()
    scrubbed.scrub.done(job, "", scrubbed.machine.now)


def test_failure_that_is_not_the_disk_is_not_damage() -> None:
    scrubbed = filled()
    for _ in range(3):
        scrubbed.machine.files.fail_next("scan", FileFailed("cannot open the file: Too many open files"))
    assert scrubbed.one_pass() == []
    assert [one for one in scrubbed.news if "Too many open files" in one], "the failure is reported"
    assert len(scrubbed.news) == 1


def test_unsealed_tail_is_not_read() -> None:
    scrubbed = filled()
    machine = scrubbed.machine
    sealed = machine.store.maintenance.sealed.offset
    assert sealed == machine.store.end_offset
    machine.turn(20)
    assert machine.store.maintenance.sealed.offset == sealed
    path, position = log_place(machine.acknowledged[-1].at.physical_offset)
    scrubbed.overwrite(path, position, b"????")
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().total == sealed


def test_empty_store_is_looked_at_again() -> None:
    scrubbed = Scrubbed()
    scrubbed.seal()
    for _ in range(5):
        scrubbed.step()
        scrubbed.machine.now += MINUTE
    assert scrubbed.scrub.status().phase is Phase.WAITING
    scrubbed.machine.turn(5)
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().records == 5


def test_pass_resumes_after_a_restart() -> None:
    scrubbed = filled()
    while scrubbed.scrub.status().done < SEGMENT:
        scrubbed.step()
    while scrubbed.scrub.status().done < 2 * SEGMENT:  # less than 30 seconds later, so that only the stop saves it
        scrubbed.step()
    done = scrubbed.scrub.status().done
    scrubbed.restart()
    scrubbed.step()
    assert scrubbed.scrub.status().done == done
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    status = scrubbed.scrub.status()
    assert status.passes == 1
    assert 0 < status.records < 100
    assert status.done > done


def test_findings_survive_a_restart_and_are_reported_again() -> None:
    scrubbed = filled()
    path, position = log_place(scrubbed.machine.acknowledged[3].at.physical_offset)
    flip(scrubbed, path, position + 90)
    found = only(scrubbed.one_pass())
    scrubbed.restart()
    scrubbed.step()
    assert scrubbed.scrub.status().findings == [found]
    assert scrubbed.scrub.status().phase is Phase.RESTING
    assert scrubbed.scrub.take_news() == [f"damage found before the restart: {found}"]


def saved(scrubbed: Scrubbed) -> bytes:
    return scrubbed.content(NAME)


def test_damaged_position_starts_the_pass_again() -> None:
    scrubbed = filled()
    scrubbed.one_pass()
    scrubbed.machine.store.close(scrubbed.machine.now)
    data = saved(scrubbed)
    for number in range(0, len(data), 7):
        damaged = data[:number] + bytes([data[number] ^ 4]) + data[number + 1 :]
        assert decode_state(damaged) is None
    scrubbed.machine.files.write_file(f"{ROOT}/{NAME}", data[:-3])
    scrubbed.crash()
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().records == 100
    assert scrubbed.news == [f"{ROOT}/{NAME} is damaged: starting at the first record of the log"]


def test_position_of_another_store_is_not_used() -> None:
    other = filled()
    other.machine.turn(40)
    other.seal()
    other.one_pass()
    scrubbed = Scrubbed()
    scrubbed.machine.number = 7
    for _ in range(40):
        scrubbed.machine.turn(5)
    scrubbed.seal()
    scrubbed.machine.store.close(scrubbed.machine.now)
    scrubbed.machine.files.write_file(f"{ROOT}/{NAME}", saved(other))
    scrubbed.crash()
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().records == 200
    assert scrubbed.news == [f"{ROOT}/{NAME} is not of this log: starting at its first record"]


def test_position_ahead_of_the_log_is_not_used() -> None:
    long = filled()
    long.one_pass()
    scrubbed = filled(20)
    scrubbed.machine.store.close(scrubbed.machine.now)
    state = decode_state(saved(long))
    assert state is not None
    state.anchor = -1
    scrubbed.machine.files.write_file(f"{ROOT}/{NAME}", encode_state(state))
    scrubbed.crash()
    scrubbed.seal()
    assert scrubbed.one_pass() == []
    assert scrubbed.scrub.status().records == 20
    assert len(scrubbed.news) == 1 and "is ahead of the log" in scrubbed.news[0]


def test_clock_set_back_does_not_delay_the_next_pass() -> None:
    scrubbed = filled()
    scrubbed.one_pass()
    scrubbed.machine.store.close(scrubbed.machine.now)
    scrubbed.machine.now -= 300 * 86_400_000  # the wall clock of the next start
    scrubbed.crash()
    scrubbed.seal()
    while scrubbed.step():
        pass
    assert scrubbed.scrub.status().phase is Phase.RESTING
    due = scrubbed.scrub.due(scrubbed.machine.now)
    assert due is not None and due <= scrubbed.machine.now + WEEK


def test_failed_write_of_the_position_does_not_stop_the_pass() -> None:
    scrubbed = filled()
    for _ in range(100):
        scrubbed.machine.files.fail_next("write_file", FileFailed("cannot write the file: simulated"))
    path, position = log_place(scrubbed.machine.acknowledged[3].at.physical_offset)
    flip(scrubbed, path, position + 90)
    only(scrubbed.one_pass())
    assert len([one for one in scrubbed.news if "cannot save" in one]) == 1


def test_paused_scrub_has_nothing_to_do() -> None:
    scrubbed = filled()
    scrubbed.step()
    scrubbed.scrub.configure(ScrubOptions(scrub_enable=False), YEAR, scrubbed.machine.now)
    assert scrubbed.scrub.due(scrubbed.machine.now) is None
    assert scrubbed.scrub.job(scrubbed.machine.now + WEEK) is None
    assert scrubbed.scrub.status().phase is Phase.PAUSED
    scrubbed.scrub.configure(ScrubOptions(), YEAR, scrubbed.machine.now)
    assert scrubbed.one_pass() == []


def test_enabling_a_resting_scrub_begins_a_pass() -> None:
    scrubbed = filled()
    scrubbed.one_pass()
    scrubbed.scrub.configure(ScrubOptions(scrub_enable=False), YEAR, scrubbed.machine.now)
    scrubbed.scrub.configure(ScrubOptions(), YEAR, scrubbed.machine.now)
    assert scrubbed.scrub.due(scrubbed.machine.now) == scrubbed.machine.now
    before = scrubbed.machine.now
    scrubbed.one_pass()
    assert scrubbed.scrub.status().passes == 2
    assert scrubbed.machine.now - before < MINUTE


def test_next_pass_begins_after_the_interval() -> None:
    scrubbed = filled()
    began = scrubbed.machine.now
    scrubbed.one_pass()
    assert not scrubbed.step()
    due = scrubbed.scrub.due(scrubbed.machine.now)
    assert due is not None and began + WEEK <= due <= began + WEEK + 2 * MINUTE
    scrubbed.scrub.configure(ScrubOptions(scrub_interval=2 * MINUTE), YEAR, scrubbed.machine.now)
    due = scrubbed.scrub.due(scrubbed.machine.now)
    assert due is not None and due <= began + 4 * MINUTE


def test_scrub_keeps_no_file_open() -> None:
    scrubbed = filled()
    handles = scrubbed.machine.files.open_handles()
    while scrubbed.scrub.status().phase is not Phase.RESTING:
        due = scrubbed.scrub.due(scrubbed.machine.now)
        scrubbed.machine.now = max(scrubbed.machine.now, due or 0)
        scrubbed.step()
        assert scrubbed.machine.files.open_handles() == handles


def test_first_read_waits_for_a_minute_after_the_start() -> None:
    scrubbed = filled()
    scrubbed.restart()
    start = scrubbed.machine.now
    scrubbed.step()  # the position
    due = scrubbed.scrub.due(scrubbed.machine.now)
    assert due is not None and due >= start + MINUTE


@pytest.mark.parametrize("folder", ["consumequeue/T/1", "index"])
def test_queue_and_index_that_are_moved_away_are_rebuilt(folder: str) -> None:
    """The procedure of docs/howto/bad-disk.md."""
    scrubbed = filled()
    machine = scrubbed.machine
    path = f"{folder}/{machine.files.list_dir(f'{ROOT}/{folder}')[0]}"
    flip(scrubbed, path, 124)
    only(scrubbed.one_pass())
    machine.store.close(machine.now)
    for name in machine.files.list_dir(f"{ROOT}/{folder}"):
        machine.files.remove(f"{ROOT}/{folder}/{name}")
    machine.files.remove(f"{ROOT}/{folder}")
    scrubbed.crash()
    assert not missing(machine.store, machine.acknowledged)
    scrubbed.seal()
    machine.now += WEEK
    assert scrubbed.one_pass() == []
