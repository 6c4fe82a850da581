"""The independent reader, against stores of Java's brokers and their manifests."""

from __future__ import annotations

import pytest

from proof.reader.errors import Unreadable
from proof.reader.frames import BINARY, JSON, Frames, Manner, frame, header
from proof.reader.index import key_hash, read_index
from proof.reader.log import files_of, read_log
from proof.reader.queues import java_hash, read_units
from proof.reader.records import read_properties, read_records
from proof.reader.tables import read_json
from tests.golden.stores import golden_store


@pytest.mark.parametrize("name", ["5.5.0-clean", "4.9.7-clean", "4.9.7-ext"])
def test_log_of_java_is_read(name: str) -> None:
    golden = golden_store(name)
    log = read_log(files_of(golden.root / "commitlog"))
    assert log.fault == ""
    assert [(one.at, one.size, one.topic, one.queue_offset, one.crc) for one in log.records] == [
        (one["physicalOffset"], one["storeSize"], one["topic"], one["queueOffset"], one["bodyCRC"])
        for one in golden.log()
    ]


@pytest.mark.parametrize("name", ["5.5.0-clean", "4.9.7-clean"])
def test_queues_and_index_of_java_are_read(name: str) -> None:
    golden = golden_store(name)
    records = {one.at: one for one in read_log(files_of(golden.root / "commitlog")).records}
    found = set()
    for topic, queue_id, files in golden.queues():
        for number, at, size, code in read_units(files):
            one = records[at]
            assert (one.topic, one.queue_id, one.queue_offset, one.size) == (topic, queue_id, number, size)
            assert topic == "SCHEDULE_TOPIC_XXXX" or code == java_hash(one.properties.get("TAGS", ""))
            found.add(at)
    assert found == {one.at for one in records.values() if one.queued}
    entries = set(read_index((data for _, data in golden.index_files()), golden.shape.index_slots))
    keys = [(key_hash(one.topic, key), one.at) for one in records.values() if one.sys_flag & 0xC != 0xC
            for key in one.properties.get("KEYS", "").split()]  # fmt: skip
    assert len(keys) > 100 and entries.issuperset(keys)


def test_json_of_fastjson_is_read() -> None:
    text = b'{"a":{0:"x",1:{"b":[1,-2,1.5,true,null]}},{"q":1,"b":"c"}:"k","\\u00e9":"\\n"}'
    assert read_json(text) == {
        "a": {"0": "x", "1": {"b": [1, -2, 1.5, True, None]}},
        "{b=c,q=1}": "k",
        "é": "\n",
    }
    for bad in (b"{", b'{"a"}', b"[1,2", b'"x', b"{}x", b"abc"):
        with pytest.raises(Unreadable):
            read_json(bad)


def test_properties_are_read_as_java_reads_them() -> None:
    assert read_properties("a\x01b\x02\x01x\x02c\x01\x02d\x01e\x01f\x02a\x01z") == {"a": "z", "d": "e\x01f"}
    with pytest.raises(Unreadable, match="only 7 bytes are left"):
        read_records(b"\x00\x00\x10\x00abc")


@pytest.mark.parametrize("form", [JSON, BINARY])
def test_frames_of_both_forms_are_read_as_they_are_written(form: int) -> None:
    data = frame(header(11, {"a": "é", "b": "x"}, 7, Manner(form, "GO", 407)), b"body", form)
    frames = Frames()
    assert list(frames.feed(data[:20])) == []
    (read,) = frames.feed(data[20:])
    assert (read.code, read.opaque, read.ext, read.body) == (11, 7, {"a": "é", "b": "x"}, b"body")
    assert (read.language, read.version, read.form) == ("GO", 407, form)
