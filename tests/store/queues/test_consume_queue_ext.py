"""Extension units: addresses, ends of files, tail and files, recovery, deletion."""

from __future__ import annotations

from pathlib import Path

from bolide.layout.ext_unit import ext_address
from bolide.store.disk.segments import HandleCache
from bolide.store.queues.consume_queue_ext import ConsumeQueueExt
from tests.store.parts import OwnFiles

BITMAP = bytes(range(14))


def open_ext(folder: Path) -> ConsumeQueueExt:
    files = OwnFiles()
    return ConsumeQueueExt(files, f"{folder}/ext/T/0", 110, HandleCache(files, 2))


def filled(folder: Path, count: int) -> tuple[ConsumeQueueExt, list[int]]:
    ext = open_ext(folder)
    return ext, [int(ext.put(number, 1000 + number, BITMAP)) for number in range(count)]


def test_a_unit_that_does_not_fit_opens_the_next_file(tmp_path: Path) -> None:
    ext, addresses = filled(tmp_path, 7)
    offsets = [address + (1 << 63) for address in addresses]
    assert offsets == [0, 34, 68, 110, 144, 178, 220], "three units of 34 and four spare bytes make 106 of 110"
    for where in ("tail", "files"):
        for number, address in enumerate(addresses):
            unit = ext.unit(address)
            assert unit is not None, where
            assert (unit.tags_code, unit.store_timestamp, unit.bitmap) == (number, 1000 + number, BITMAP)
        ext.flush()
    first = (tmp_path / "ext/T/0" / f"{0:020d}").read_bytes()
    assert len(first) == 110
    assert first[102:] == b"\xff\xff" + bytes(6)


def test_addresses_that_point_nowhere(tmp_path: Path) -> None:
    ext, _ = filled(tmp_path, 2)
    ext.flush()
    assert ext.unit(5) is None
    assert ext.unit(ext_address(68)) is None
    assert ext.unit(ext_address(10**9)) is None


def test_a_unit_too_large_for_an_address_keeps_the_tags_code(tmp_path: Path) -> None:
    ext = open_ext(tmp_path)
    assert ext.put(42, 1, bytes(32767)) == 42
    assert ext.end == 0


def test_recovery_and_truncation(tmp_path: Path) -> None:
    ext, addresses = filled(tmp_path, 7)
    ext.flush()
    again = open_ext(tmp_path)
    again.load()
    again.recover()
    assert again.end == 254
    again.truncate_behind(7)
    assert again.end == 254, "a plain tags code changes nothing"
    again.truncate_behind(addresses[4])
    assert again.end == 178
    assert not any((tmp_path / "ext/T/0" / f"{110:020d}").read_bytes()[68:])
    assert again.put(9, 9, b"") == ext_address(178)
    third = open_ext(tmp_path)
    third.load()
    third.recover()
    assert third.end == 178


def test_a_damaged_address_truncates_nothing(tmp_path: Path) -> None:
    """The bitmap's own bytes look like a size there, of a unit whose parts do not add up."""
    ext, addresses = filled(tmp_path, 7)
    ext.flush()
    end = ext.end
    ext.truncate_behind(addresses[1] + 22)
    assert ext.end == end


def test_leading_files_are_deleted(tmp_path: Path) -> None:
    ext, addresses = filled(tmp_path, 7)
    ext.flush()
    ext.delete_before(12)
    ext.delete_before(addresses[2])
    assert ext.unit(addresses[0]) is not None
    ext.delete_before(addresses[4])
    assert ext.unit(addresses[0]) is None
    assert ext.unit(addresses[3]) is not None
