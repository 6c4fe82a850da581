"""The executor with a host that only notes what it is asked: order, waiting, failing, asking, forgetting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.broker.core.outcome import NOTHING, Ask, Cold, Outcome, reply
from bolide.broker.refused import Refused
from bolide.errors import ProtocolError
from bolide.remoting import codes
from bolide.remoting.codec import REMOTING, Outgoing, WireCodec
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.response_bytes import Buffer
from bolide.store.disk.files import FileFailed
from tests.node.loop.executing import CREATES, NOW, OTHER, PULLS, SENDS, World, held


class NotingCodec(WireCodec):
    """Notes the code of each message."""

    def __init__(self) -> None:
        self.encoded: list[int] = []

    def encode(self, message: Outgoing) -> list[Buffer]:
        self.encoded.append(message.code)
        return REMOTING.encode(message)


def test_a_parked_answer_leaves_when_flushed_and_dispatched(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.do(SENDS, world.store_one())
    world.turn()
    assert world.got() == [] and len(world.host.flushes) == 1 and world.executor.parked_count == 2
    assert world.store.max_queue_offset("T", 0) == 0
    world.flush()
    assert world.got() == [(0, None), (0, None)] and world.store.max_queue_offset("T", 0) == 2


def test_one_flush_is_in_flight_and_the_next_takes_all_that_waits(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.turn()
    for _ in range(3):
        world.do(SENDS, world.store_one())
        world.turn()
    assert len(world.host.flushes) == 1
    world.flush()
    assert len(world.got()) == 1 and len(world.host.flushes) == 1
    world.flush()
    assert len(world.got()) == 3 and world.host.flushes == []


def test_wait_false_does_not_wait_for_the_flush(world: World) -> None:
    world.do(SENDS, world.store_one(wait=False))
    world.turn()
    assert world.got() == [(0, None)]


def test_async_flush_answers_in_the_same_turn(tmp_path: Path) -> None:
    world = World(tmp_path, sync=False)
    world.do(PULLS, held(world))
    world.do(SENDS, world.store_one())
    world.turn()
    assert world.got() == [(19, "again"), (0, None)]
    world.store.close(NOW)


def test_a_flush_that_takes_too_long_answers_10(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.turn()
    assert world.executor.next_due() <= NOW + 5000
    world.executor.tick(NOW + 4999)
    world.turn(NOW + 4999)
    assert world.got() == []
    world.executor.tick(NOW + 5000)
    world.turn(NOW + 5000)
    assert world.got() == [(codes.FLUSH_DISK_TIMEOUT, None)]
    world.flush()
    assert world.got() == []


def test_response_is_encoded_for_its_connection_when_its_code_is_final(world: World) -> None:
    world.peer.codec = codec = NotingCodec()
    world.do(SENDS, world.store_one())
    world.do(OTHER, lambda command: reply(make_response(command, codes.SYSTEM_BUSY)))
    world.effects.send(world.peer, make_request(40, 1))
    world.turn()
    assert codec.encoded == [codes.SYSTEM_BUSY, 40]
    world.executor.tick(NOW + 5000)
    assert codec.encoded == [codes.SYSTEM_BUSY, 40, codes.FLUSH_DISK_TIMEOUT]
    world.turn(NOW + 5000)
    assert [code for code, _ in world.got()] == codec.encoded


def test_a_failed_flush_refuses_everything_parked_and_stops(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.turn()
    world.do(SENDS, world.store_one())
    world.executor.flush_failed(FileFailed("disk gone"))
    world.turn()
    ((code, remark), second) = world.got()
    assert code == second[0] == codes.SERVICE_NOT_AVAILABLE and "disk gone" in str(remark)
    assert len(world.host.store_errors) == 1 and not world.store.writable()


def test_a_new_log_file_that_cannot_be_synced_stops_the_broker(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.store.stop_writing("cannot sync the new file")
    world.turn()
    ((code, remark),) = world.got()
    assert code == codes.SERVICE_NOT_AVAILABLE and "the new file" in str(remark)
    assert len(world.host.store_errors) == 1 and world.host.flushes == []


def test_a_write_that_fails_refuses_its_turn_only(world: World) -> None:
    world.do(SENDS, world.store_one())
    world.turn()
    world.files.full = True
    world.do(SENDS, world.store_one())
    world.turn()
    assert [code for code, _ in world.got()] == [codes.SERVICE_NOT_AVAILABLE]
    world.files.full = False
    world.do(SENDS, world.store_one())
    world.turn()
    world.flush()
    world.flush()
    assert world.got() == [(0, None), (0, None)]
    assert world.store.max_queue_offset("T", 0) == 2


def test_oneway_requests_are_never_answered(world: World) -> None:
    world.do(OTHER, lambda command: reply(make_response(command, 0)), oneway=True)
    world.do(OTHER, ValueError("x"), oneway=True)
    world.do(SENDS, world.store_one(), oneway=True)
    world.executor.handle(world.peer, make_request(99, 1, oneway=True), frozenset(), NOW)
    world.turn()
    assert world.got() == [] and world.executor.parked_count == 0


def test_faults_of_handlers_become_answers(world: World) -> None:
    world.do(OTHER, ValueError("odd"))
    world.do(OTHER, Refused(26, "no group"))
    world.do(OTHER, ProtocolError("torn"))
    world.executor.handle(world.peer, make_request(99, 1), frozenset(), NOW)
    world.executor.handle(world.peer, make_request(OTHER, 1), frozenset({OTHER}), NOW)
    world.turn()
    assert world.got() == [
        (1, "ValueError: odd"),
        (26, "no group"),
        (1, "ProtocolError: torn"),
        (3, " request type 99 not supported"),
        (3, f" request type {OTHER} not supported"),
    ]
    assert len(world.host.faults) == 1 and world.host.closed == [world.peer]


def test_a_held_pull_expires_and_a_closed_channel_takes_its_pulls_along(world: World) -> None:
    world.do(PULLS, held(world))
    assert world.executor.next_due() <= NOW + 100
    world.executor.tick(NOW + 100)
    world.turn()
    assert world.got() == [(19, "again")]
    world.do(PULLS, held(world))
    world.executor.closed(world.peer, NOW)
    assert world.waiters.count == 0 and world.closed_channels == [world.peer]


def test_cold_reads_are_loaded_and_run_again_until_it_is_enough(world: World) -> None:
    def cold(command: Command) -> Outcome:
        def again(now: int) -> Outcome:
            return Cold(["more"], again)

        return Cold(["first"], again)

    world.do(PULLS, cold)
    rounds = 0
    while world.host.loads:
        _, then = world.host.loads.pop()
        then(NOW)
        rounds += 1
    world.turn()
    assert rounds == 8 and [code for code, _ in world.got()] == [1]


def test_an_answer_of_another_client_is_passed_on(world: World) -> None:
    def ask(command: Command) -> Outcome:
        def then(response: Command | None, now: int) -> Outcome:
            return reply(make_response(command, 0, "none" if response is None else str(response.remark)))

        return Ask(world.other, make_request(307, 0), 100, then)

    world.do(OTHER, ask)
    world.turn()
    (asked,) = world.host.written.pop(world.other.id)
    world.executor.handle(world.other, make_response(asked, 0, "fine"), frozenset(), NOW)
    world.turn()
    assert world.got() == [(0, "fine")]
    world.do(OTHER, ask)
    world.executor.tick(NOW + 100)
    world.do(OTHER, ask)
    world.executor.closed(world.other, NOW)
    world.do(OTHER, ask)
    world.turn()
    assert world.got() == [(0, "none")] * 3


def test_effects_are_carried_out_at_the_end_of_the_turn(world: World) -> None:
    def outcome(command: Command) -> Outcome:
        world.effects.send(world.other, make_request(40, 0, oneway=True))
        world.effects.close(world.peer)
        world.effects.persist("topics")
        world.effects.register(["T"])
        world.effects.load(["extent"], lambda now: None)
        return NOTHING

    world.do(OTHER, outcome)
    assert world.host.closed == []
    world.turn()
    assert [command.code for command in world.host.written[world.other.id]] == [40]
    assert world.host.closed == [world.peer] and [names for names, _ in world.host.persisted] == [{"topics"}]
    assert world.host.registered == {"T"} and len(world.host.loads) == 1
    world.do(PULLS, held(world))
    world.effects.release(("T", 0))
    world.turn()
    assert world.got() == [(19, "again")]


def creating(world: World) -> Callable[[Command], Outcome]:
    def creates(command: Command) -> Outcome:
        world.effects.persist("topics")
        return reply(make_response(command, 0))

    return creates


def test_what_changes_a_table_is_answered_when_it_is_on_disk(world: World) -> None:
    creates = creating(world)
    world.do(CREATES, creates)
    world.do(codes.PULL_MESSAGE, creates)  # a group that a pull makes is made by the next as well
    world.do(CREATES, lambda command: reply(make_response(command, 1, "nothing changed")))
    world.turn()
    assert world.got() == [(0, None), (1, "nothing changed")]
    world.do(CREATES, creates)
    world.do(CREATES, creates, oneway=True)
    world.turn()
    assert world.got() == []
    (_, first), (_, second) = world.host.persisted
    second("the disk is full")
    world.turn()
    assert world.got() == [(codes.SYSTEM_ERROR, "it is done, but a restart may undo it: the disk is full")]
    first("")
    world.turn()
    assert world.got() == [(0, None)]


def test_what_a_tick_changes_keeps_no_answer_waiting(world: World) -> None:
    world.do(OTHER, lambda command: Cold([], lambda now: reply(make_response(make_request(OTHER, 77), 0))))
    world.effects.persist("offsets")
    world.executor.tick(NOW)
    world.host.loads.pop()[1](NOW)
    world.turn()
    assert world.got() == [(0, None)]


def test_nor_does_what_changed_between_two_requests(world: World) -> None:
    world.do(OTHER, lambda command: Cold([], lambda now: reply(make_response(make_request(OTHER, 77), 0))))
    world.effects.persist("offsets")
    world.turn()
    world.host.loads.pop()[1](NOW)
    world.turn()
    assert world.got() == [(0, None)]


def test_an_answer_that_waited_for_bytes_waits_for_the_table_it_changes_then(world: World) -> None:
    def again(now: int) -> Outcome:
        world.effects.persist("topics")
        return reply(make_response(make_request(OTHER, 77), 0))

    world.do(OTHER, lambda command: Cold([], again))
    world.host.loads.pop()[1](NOW)
    world.turn()
    assert world.got() == []
    world.host.persisted.pop()[1]("")
    world.turn()
    assert world.got() == [(0, None)]


@pytest.mark.parametrize("log_first", [True, False])
def test_a_message_whose_topic_is_new_waits_for_the_log_and_the_table(world: World, log_first: bool) -> None:
    world.do(SENDS, world.store_one(table="topics"))
    world.do(SENDS, world.store_one())
    world.turn()
    (_, written) = world.host.persisted.pop()
    if log_first:
        world.flush()
        assert world.got() == [(0, None)] and world.executor.parked_count == 0 and world.executor.unanswered == 1
        written("")
        world.turn()
        assert world.got() == [(0, None)]
    else:
        written("")
        world.turn()
        assert world.got() == []
        world.flush()
        assert world.got() == [(0, None), (0, None)]
    assert world.executor.unanswered == 0


@pytest.mark.parametrize("log_first", [True, False])
def test_a_message_whose_topic_cannot_be_written_is_not_acknowledged(world: World, log_first: bool) -> None:
    world.do(SENDS, world.store_one(table="topics"))
    world.turn()
    steps = [world.flush, lambda: world.host.persisted.pop()[1]("the disk is full")]
    for step in steps if log_first else reversed(steps):
        step()
    world.turn()
    ((code, remark),) = world.got()
    assert code == codes.SERVICE_NOT_AVAILABLE and remark is not None and remark.endswith("the disk is full")


def test_a_message_that_did_not_get_into_the_log_is_refused_whatever_the_table_says(world: World) -> None:
    world.files.full = True
    world.do(SENDS, world.store_one(table="topics"))
    world.turn()
    world.files.full = False
    assert [code for code, _ in world.got()] == [codes.SERVICE_NOT_AVAILABLE]
    world.host.persisted.pop()[1]("")
    world.turn()
    assert world.got() == []
