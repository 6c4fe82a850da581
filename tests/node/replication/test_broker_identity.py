"""The id that the controller gave, as RocketMQ keeps it, also when the process dies while it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from bolide.errors import ConfigError
from bolide.node.replication.broker_identity import Applied, BrokerIdentity
from bolide.remoting.replica_claims import Claims
from bolide.store.errors import StoreDamaged
from bolide.testing.files import SimulatedFiles, Stopped

PATH = "/data/brokerIdentity"


def disk() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_dir("/data")
    files.sync_dir("/")
    return files


def identity(files: SimulatedFiles, name: str = "broker-a") -> BrokerIdentity:
    return BrokerIdentity(files, PATH, "DefaultCluster", name)


def deaths(
    before: Callable[[BrokerIdentity], None], act: Callable[[BrokerIdentity], None], power_cut: int | None
) -> Iterator[tuple[SimulatedFiles, bool]]:
    """Yield what a death at each call of `act` leaves on the disk, and whether `act` was over."""
    for stop in count():
        files = disk()
        before(identity(files))
        files.stop_after = files.calls + stop
        done = False
        with suppress(Stopped):
            act(identity(files))
            done = True
        files.stop_after = None
        if power_cut is None:
            files.process_crash()
        else:
            files.power_cut(power_cut)
        yield files, done
        if done:
            return


def test_the_files_are_those_of_java() -> None:
    files = disk()
    made = identity(files)
    assert (made.load(), made.applied()) == (0, None)
    made.apply(Applied(3, "127.0.0.1:41110;1795330191994"))
    assert files.read_file(PATH + "-temp") == b"DefaultCluster#broker-a#3#127.0.0.1:41110;1795330191994"
    assert made.applied() == Applied(3, "127.0.0.1:41110;1795330191994")
    made.keep(3)
    assert files.read_file(PATH) == b"DefaultCluster#broker-a#3"
    assert (made.load(), made.applied()) == (3, None)


@pytest.mark.parametrize("power_cut", [None, 1, 2])
def test_a_death_anywhere_leaves_the_id_or_what_was_asked_for(power_cut: int | None) -> None:
    asked = Applied(3, "a:1;5")
    for files, done in deaths(lambda of: of.apply(asked), lambda of: of.keep(3), power_cut):
        found = identity(files)
        assert found.load() == 3 or found.applied() == asked
        if done:
            assert found.load() == 3


def test_the_store_of_another_set_is_refused() -> None:
    files = disk()
    identity(files).keep(3)
    with pytest.raises(ConfigError, match="is of broker-a in the cluster DefaultCluster, not of broker-b"):
        identity(files, "broker-b").load()


@pytest.mark.parametrize("text", [b"broker-a", b"DefaultCluster#broker-a#x", b"DefaultCluster#broker-a#0", b"\xff#a#1"])
def test_a_bad_file_is_reported(text: bytes) -> None:
    files = disk()
    files.write_file(PATH, text)
    with pytest.raises(StoreDamaged, match="contains .*broker id"):
        identity(files).load()


def test_an_empty_file_is_no_reason_to_take_another_id() -> None:
    """The old one stays in sync at the controller, and the set waits for it."""
    files = disk()
    files.write_file(PATH, b"")
    with pytest.raises(StoreDamaged, match="instead of a broker id"):
        identity(files).load()


def test_an_empty_note_of_what_was_asked_for_is_none() -> None:
    files = disk()
    files.write_file(PATH + "-temp", b"")
    assert identity(files).applied() is None


def test_each_start_has_a_token_and_knows_the_one_before() -> None:
    files = disk()
    made = identity(files)
    assert made.life() == Claims()
    made.begin_life(Claims("1-a"))
    assert identity(files).life() == Claims("1-a"), "a start that was interrupted continues with its token"
    made.keep_life("1-a")
    assert identity(files).life() == Claims("", "1-a")
    made.begin_life(Claims("2-b", "1-a"))
    assert files.read_file(PATH + "-life") == b"1-a#2-b"
    assert identity(files).life() == Claims("2-b", "1-a")


@pytest.mark.parametrize("power_cut", [None, 1, 2])
def test_a_death_anywhere_leaves_a_token_that_the_controller_takes(power_cut: int | None) -> None:
    before = Claims("2-b", "1-a")
    for files, _ in deaths(lambda of: of.begin_life(before), lambda of: of.keep_life("2-b"), power_cut):
        assert identity(files).life() in (before, Claims("", "2-b"))


@pytest.mark.parametrize("data", [b"", b"1-a", b"#", b"\xff#", b"a b#c"])
def test_a_damaged_token_is_refused(data: bytes) -> None:
    files = disk()
    files.write_file(PATH + "-life", data)
    with pytest.raises(StoreDamaged, match="instead of a token"):
        identity(files).life()
