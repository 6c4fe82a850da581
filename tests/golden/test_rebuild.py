"""Queues, extension files and index rebuilt from CommitLog and broker.conf alone are Java's, byte for byte."""

from __future__ import annotations

from bolide.declaration import options_of
from bolide.dispatch.rebuild import rebuild
from bolide.layout.shape import ShapeOptions, StoreShape
from tests.golden.registered import registered_filters
from tests.golden.stores import GoldenStore


def _assert_same(mine: list[tuple[int, bytes]], theirs: list[tuple[int, bytes]], killed: bool, what: str) -> None:
    assert [start for start, _ in theirs] == [start for start, _ in mine][: len(theirs)], what
    if not killed:
        assert len(mine) == len(theirs), what
    for (start, ours), (_, java) in zip(mine, theirs, strict=False):
        used = len(java.rstrip(b"\0")) if killed else len(ours)
        assert ours[:used] == java[:used], f"{what} file {start}"
        assert not any(java[len(ours) :]), f"{what} file {start}: bytes beyond ours"


def test_queues_are_javas_byte_for_byte(golden: GoldenStore) -> None:
    filters, newest = registered_filters(golden) if golden.shape.enable_calc_filter_bit_map else ({}, 0)
    made = rebuild(golden.commit_log(), golden.shape, filters)
    assert made.skipped == []
    assert made.records == len(golden.log())
    assert newest < golden.log()[0]["storeTimestamp"], "a filter younger than the log cannot be compared"
    seen = set()
    for topic, queue_id, segments in golden.queues():
        _assert_same(made.queues[topic, queue_id].segments(), segments, golden.killed, f"{topic} {queue_id}")
        seen.add((topic, queue_id))
        if golden.shape.enable_consume_queue_ext:
            ext = golden.segments(f"consumequeue_ext/{topic}/{queue_id}")
            _assert_same(made.queues[topic, queue_id].ext_segments(), ext, golden.killed, f"{topic} {queue_id} ext")
    assert golden.killed or seen == set(made.queues)


def test_bitmaps_say_which_filter_takes_a_message(golden: GoldenStore) -> None:
    if not golden.shape.enable_calc_filter_bit_map:
        return
    without = rebuild(golden.commit_log(), golden.shape)
    filters, _ = registered_filters(golden)
    made = rebuild(golden.commit_log(), golden.shape, filters)
    changed = {key for key in made.queues if made.queues[key].ext_segments() != without.queues[key].ext_segments()}
    assert {topic for topic, _ in changed} == {"golden_filter"}


def test_index_files_are_javas_byte_for_byte(golden: GoldenStore) -> None:
    made = rebuild(golden.commit_log(), golden.shape)
    theirs = golden.index_files()
    assert len(theirs) == len(made.index_files) or golden.killed
    for image, (name, java) in zip(made.index_files, theirs, strict=False):
        ours = image.encode()
        if golden.killed and image is made.index_files[len(theirs) - 1] and ours != java[: len(ours)]:
            entries = 40 + 4 * golden.shape.index_slots
            used = len(java.rstrip(b"\0"))
            assert ours[entries:used] == java[entries:used], name
            continue
        assert ours == java[: len(ours)], name
        assert not any(java[len(ours) :]), name


def test_the_other_versions_rules_would_show(golden: GoldenStore) -> None:
    other = "4.9" if golden.shape.store_version == "5.5" else "5.5"
    shape = StoreShape.of(options_of(ShapeOptions, {**golden.manifest["brokerConf"], "storeVersion": other}))
    made = rebuild(golden.commit_log(), shape)
    assert made.index_files[0].encode() != golden.index_files()[0][1][: len(made.index_files[0].encode())]
