"""Whole stores of which some files are damaged: a start serves, or refuses with a sentence, and a repair helps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.errors import LocalError, PeerError
from bolide.layout.deleted_topics import mark_line
from bolide.layout.errors import LayoutError
from bolide.layout.record import decode_records
from bolide.layout.store_format import NAME as FORMAT_FILE
from bolide.layout.timer import WHEEL_SLOTS
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.store.disk.files import FileFailed
from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.store.offline.inspect import NoStore, inspect_store
from bolide.store.offline.repair import Repair
from bolide.store.offline.verify import verify_store
from bolide.store.timer.timer_files import TimerFiles, Wish
from bolide.testing.files import SimulatedFiles
from proof.fuzz import damage
from proof.fuzz.choices import Choices
from proof.fuzz.damage import NOW, ROOT, SHAPE, TOPICS
from proof.fuzz.target import MIB, Broken, Limits, Target

PRECISION: Final = 1000
SLOTS: Final = 16
TIMER_FILE: Final = 400
MOST_DAMAGES: Final = 4
assert SLOTS < WHEEL_SLOTS  # a wheel this small is walked through in every run


def store(data: bytes) -> None:
    """All files of a store, some of them damaged in any way."""
    choices = Choices(data)
    files = choices.pick(damage.small_stores()).clone()
    for _ in range(choices.below(MOST_DAMAGES) + 1):
        damage.damage(files, damage.paths_of(files), choices)
    if choices.flag():
        files.boots += 1
    _look(files)
    if not _serves(files) and _repaired(files) and not _serves(files):
        raise Broken(f"a repaired store does not start: {_refusal(files)}")


def small_file(data: bytes) -> None:
    """One of the short files of a store, or of its unit files, with any content at all."""
    choices = Choices(data)
    files = choices.pick(damage.small_stores()).clone()
    names = ("derived.json", "abort", "checkpoint", "deleted-topics", "lock")
    path = f"{ROOT}/{choices.pick(names)}"
    if choices.flag():
        path = choices.pick(damage.paths_of(files))
    damage.replace(files, path, choices.rest())
    _look(files)
    if not _serves(files) and _repaired(files) and not _serves(files):
        raise Broken(f"a repaired store does not start: {_refusal(files)}")


def _look(files: SimulatedFiles) -> None:
    """Inspect and verify the store. Neither may change it, and `verify` refuses only a damaged format file."""
    before = {path: files.read_file(path) for path in damage.paths_of(files)}
    try:
        inspect_store(files, ROOT, SHAPE)
    except (NoStore, LocalError):
        pass
    try:
        verify_store(files, ROOT, SHAPE)
    except LayoutError as refusal:
        if FORMAT_FILE not in str(refusal):
            raise
    if {path: files.read_file(path) for path in damage.paths_of(files)} != before:
        raise Broken("a look at a store changed it")


def _refusal(files: SimulatedFiles) -> str:
    files.process_crash()
    found = damage.open_store(files)
    try:
        found.load(NOW + 5000)
    except (StoreDamaged, LocalError) as error:
        return str(error)
    return ""


def _serves(files: SimulatedFiles) -> bool:
    """Start, use everything, stop, and start again; False when the start is refused."""
    files.process_crash()
    opened = damage.open_store(files)
    try:
        opened.load(NOW + 5000)
    except LocalError as error:
        if len(str(error)) < 20:
            raise Broken(f"the refusal says too little: {error}") from error
        return False
    _use(opened)
    damage.append_some(opened, 3, NOW + 6000)
    _use(opened)
    opened.close(NOW + 7000)
    again = damage.open_store(files)
    again.load(NOW + 8000)
    _use(again)
    again.close(NOW + 9000)
    return True


def _use(opened: MessageStore) -> None:
    """Ask for everything that a client can ask a store for."""
    opened.dispatch(1 << 16, NOW + 5000)
    for topic in {*opened.topics_in_queues(), *TOPICS, "unknown"}:
        for queue_id in {*opened.queue_ids(topic), 0, 1}:
            _read(opened, topic, queue_id)
    opened.earliest_store_time()
    for key in ("k1", "u5", "k99"):
        found = opened.query_messages("T", key, 8, 0, 1 << 62)
        if len(found.records) > 24:
            raise Broken(f"a query for 8 found {len(found.records)}")
    for physical in (0, 1, 2047, 2048, 5000, 1 << 40):
        opened.record_at(physical)


def _read(opened: MessageStore, topic: str, queue_id: int) -> None:
    low, high = int(opened.min_queue_offset(topic, queue_id)), int(opened.max_queue_offset(topic, queue_id))
    at, turns = low, 0
    while at < high:
        found = opened.read(topic, queue_id, at, max_count=32, max_bytes=1 << 16)
        decode_records(b"".join(bytes(part) for part in found.buffers))
        turns += 1
        if found.next_begin_offset <= at or turns > 200:
            break
        at = int(found.next_begin_offset)
    for offset in (low - 1, low, high - 1, high, -1, 1 << 62):
        opened.store_time_at(topic, queue_id, offset)
        opened.units(topic, queue_id, offset, 2)
    for boundary in ("lower", "upper"):
        for time in (0, NOW + 10, 1 << 62):
            opened.offset_by_time(topic, queue_id, time, boundary)
    opened.earliest_store_time(topic, queue_id)


def _repaired(files: SimulatedFiles) -> bool:
    """Whether a repair did something: first without losing anything, then by a cut."""
    for cut in (False, True):
        files.process_crash()
        try:
            repair = Repair(files, ROOT, SHAPE)
        except (LocalError, PeerError):
            return False
        try:
            plan = repair.plan(cut)
            if not plan.reason:
                return False
            repair.carry_out(plan, NOW + 4000)
            return True
        except StoreDamaged:
            continue
        except LocalError:
            return False
        finally:
            repair.close()
    return False


def timer_store(data: bytes) -> None:
    """The timer's log, wheel and checkpoint, each damaged in any way: they are used, or given up with a reason."""
    choices = Choices(data)
    files = SimulatedFiles()
    files.make_dir(ROOT + "/config")
    made = TimerFiles(files, ROOT, PRECISION, TIMER_FILE, SLOTS)
    made.load(lambda offset, size: offset // 100)
    for number in range(20):
        time = NOW // PRECISION * PRECISION + number % 7 * PRECISION
        made.append([Wish(time, 1 if number % 5 else 2, number * 100, 90, number)], NOW)
    made.log.end = min(made.log.end, int(made.log.segments.end_of_files))
    made.sync_job(_point(made), b"{}").run()
    made.close()
    for _ in range(choices.below(MOST_DAMAGES) + 1):
        paths = damage.paths_of(files)
        if paths:
            damage.damage(files, paths, choices)
    files.process_crash()
    again = TimerFiles(files, ROOT, PRECISION, TIMER_FILE, SLOTS)
    try:
        again.load(lambda offset, size: offset // 100 if 0 <= offset < 2000 else -1)
        if again.lost:
            again.reset()
        again.append([Wish(NOW // PRECISION * PRECISION, 1, 2000, 90, 1)], NOW)
        for slot in again.wheel.slots.values():
            at, seen = int(slot.last), 0
            while at >= 0 and seen < 100:
                unit = again.log.unit(at)
                at, seen = -1 if unit is None or unit.previous >= at else int(unit.previous), seen + 1
    except FileFailed:
        pass
    finally:
        again.close()


def _point(made: TimerFiles) -> TimerCheckpoint:
    return TimerCheckpoint(NOW - 2000, made.log.end, 20, 0, NOW, 1, PRECISION)


def _stores() -> Iterable[bytes]:
    return list(damage.seeds(damage.small_stores()[0]))[::3]


def _timer_stores() -> Iterable[bytes]:
    for number in range(8):
        for kind in range(10):
            yield bytes([0, number, kind, 0, number * 37 % 256, 3, 60, 255, 255, 0, 1])


def _small_files() -> Iterable[bytes]:
    for number, files in enumerate(damage.small_stores()):
        for place, name in enumerate(("derived.json", "abort", "checkpoint", "deleted-topics")):
            yield bytes([number, place, 0]) + (files.read_file(f"{ROOT}/{name}") or b"")[:128]
    yield b"\0\3\0" + mark_line("T", 900) + mark_line("U", 1 << 60)
    yield b"\0\0\0" + b'{"logEnd": 1, "queues": {"T": {"0": [0, 5]}}, "index": ["x"]}'


WORDS: Final = (
    *(
        b'{"logEnd": ',
        b'"queues": {',
        b'"T": {',
        b'"0": [',
        b'"index": [',
        b"null",
        b"1e999",
        b"NaN",
        b"[[[[[[",
        b'"x": ',
    ),
    *(
        b"bolide boot-0 1 SYNC\n",
        b" ASYNC",
        b"4711\n",
        b"BOLIDE 1",
        b"\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\x80" + bytes(7),
    ),
    *(b'{"topic": "T", "offset": ', b"}\n", b"\0" * 16),
)
TARGETS: Final = (
    Target("small_file", small_file, _small_files, Limits(memory=64 * MIB, steps=0), largest=512, words=WORDS, cost=40),
    Target("store", store, _stores, Limits(memory=64 * MIB, steps=0), largest=256, cost=40),
    Target("timer_store", timer_store, _timer_stores, Limits(memory=64 * MIB, steps=0), largest=256, cost=10),
)
