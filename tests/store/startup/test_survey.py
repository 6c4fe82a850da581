"""Records of which a power cut took a sector that no CRC covers."""

from __future__ import annotations

import pytest

from bolide.layout.broker_message import BrokerMessage
from bolide.store.startup.survey import SECTOR, lacks_sector
from tests.layout.records import message_of, record_bytes
from tests.store.scenario import ROOT, START, Machine

LOG = f"{ROOT}/commitlog/{0:020d}"


def long_message(size: int = 1400) -> BrokerMessage:
    """A message whose properties fill more than two sectors."""
    return message_of("T", b"body", f"filler\x01{'x' * size}\x02".encode(), 0, born_timestamp=START)


def lose(machine: Machine, offset: int, size: int, how: str = "power cut") -> None:
    """The power fails, or the process is killed, and a part of the log never was written."""
    handle = machine.files.open(LOG)
    machine.files.write_at(handle, [bytes(size)], offset)
    machine.files.close(handle)
    if how == "kill":
        machine.crash()
    else:
        machine.power_cut(1)


@pytest.mark.parametrize("sector", [1, 2])
def test_a_record_without_a_sector_of_its_properties_is_no_record(sector: int) -> None:
    machine = Machine()
    machine.turn(1)
    begin = int(machine.store.log.end_offset)
    put = long_message()
    machine.store.append(put, machine.now)
    machine.write()
    lose(machine, (begin // SECTOR + sector) * SECTOR, SECTOR)
    assert machine.report.log_end == begin and machine.report.records == 1
    assert machine.report.truncated_bytes > 0


def test_the_write_that_a_kill_interrupted_is_no_damage() -> None:
    machine = Machine()
    machine.turn(1)
    begin = int(machine.store.log.end_offset)
    machine.store.append(long_message(), machine.now)
    machine.write()
    lose(machine, (begin // SECTOR + 2) * SECTOR, SECTOR, "kill")
    assert machine.report.log_end == begin and machine.report.records == 1


def test_survey_skips_synced_records() -> None:
    machine = Machine()
    machine.turn(1)
    put = long_message()
    machine.store.append(put, machine.now)
    machine.write()
    machine.flush()
    machine.tick(1000)
    end = int(machine.store.log.end_offset)
    lose(machine, 2 * SECTOR, SECTOR)
    assert machine.report.log_end == end, "the record was synced: a bad byte there is not a power cut's"


def test_only_whole_pieces_of_zeros_are_holes() -> None:
    data = record_bytes("T", b"b", b"name\x01value\x02")
    size = len(data)
    assert not lacks_sector(data, 0, size, 0)
    assert not lacks_sector(data, 0, size, SECTOR - size + 1), "the last byte alone is in the next sector"
    torn = data[:-4] + bytes(4)
    assert lacks_sector(torn, 0, size, SECTOR - size + 4)
    assert not lacks_sector(torn, 0, size, SECTOR - size + 5), "a byte of the sector is there"
    bare = record_bytes("T", b"b")
    for over in range(1, 8):
        assert not lacks_sector(bare, 0, len(bare), SECTOR - len(bare) + over), "no properties end in no zeros"


def test_the_length_of_a_long_topic_begins_with_a_zero_that_is_no_hole() -> None:
    data = record_bytes("%RETRY%" + "g" * 200, b"b", b"name\x01value\x02")
    assert [at for at in range(len(data)) if lacks_sector(data, 0, len(data), SECTOR - at)] == []
