"""Each refusal with Java's code, each decision with its epochs, and what holds whatever happens."""

from __future__ import annotations

import random

import pytest

from bolide.controller.consensus import LeadershipLost
from bolide.controller.effects import Elect
from bolide.controller.replica_set import ReplicaSet
from bolide.controller.server import Open
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.command import make_request
from bolide.remoting.replica_claims import Claims
from tests.controller.controllers import CLUSTER, NAME, Engine, Seat, address, set_of_two


@pytest.fixture
def seat() -> Seat:
    seat = Seat(Engine())
    seat.lead()
    return seat


def clean(seat: Seat, now: int = 0, **fields: str) -> int:
    return seat.ask(codes.CLEAN_BROKER_DATA, CLUSTER | fields, now=now).code


# ---- ids


def test_an_id_belongs_to_one_check_code(seat: Seat) -> None:
    def take(broker_id: object, code: str) -> int:
        ext = CLUSTER | {"appliedBrokerId": str(broker_id), "registerCheckCode": code}
        return seat.ask(codes.CONTROLLER_APPLY_BROKER_ID, ext).code

    assert take(2, "a:1;1") == codes.CONTROLLER_BROKER_ID_INVALID  # the first of a set is 1
    assert take(1, "a:1;1") == 0
    assert take(1, "a:1;1") == 0
    assert take(1, "a:1;2") == codes.CONTROLLER_BROKER_ID_INVALID
    assert take(2, "b:1;1") == 0
    assert take(9, "c:1;1") == 0
    assert take(7, "d:1;1") == codes.CONTROLLER_BROKER_ID_INVALID, "ids are given once, in ascending order"
    assert {take(wrong, "d:1;1") for wrong in (0, -1, "x", 2**60)} == {codes.CONTROLLER_BROKER_ID_INVALID}
    assert seat.ask(codes.CONTROLLER_GET_NEXT_BROKER_ID, CLUSTER).ext()["nextBrokerId"] == "10"
    assert seat.one().replicas[2].address == "b:1"


def test_a_broker_that_moved_is_found_at_its_new_address(seat: Seat) -> None:
    set_of_two(seat)
    seat.beat(1, 20_000)
    assert seat.register(2, 20_000, where="10.9.9.9:1").ext()["masterAddress"] == address(1)
    assert (seat.one().replicas[2].address, seat.one().replicas[2].check_code) == ("10.9.9.9:1", f"{address(2)};2")
    assert seat.register(7).code == codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_a_master_that_does_not_live_is_not_named(seat: Seat) -> None:
    set_of_two(seat)
    answer = seat.register(2, now=60_000)
    assert (answer.code, answer.ext()) == (0, CLUSTER)


def test_an_unknown_set(seat: Seat) -> None:
    assert seat.register(1).code == codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert seat.elect(1).code == codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert seat.alter(1, 1, [1], 1).code == codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    assert clean(seat) == codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA


# ---- who is in sync


@pytest.mark.parametrize(
    ("master", "epoch", "ids", "set_epoch", "code"),
    [
        (1, 1, [2, 1], 2, codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),  # the same set
        (2, 1, [2], 2, codes.CONTROLLER_INVALID_MASTER),
        (1, 2, [1], 2, codes.CONTROLLER_FENCED_MASTER_EPOCH),
        (1, 0, [1], 2, codes.CONTROLLER_FENCED_MASTER_EPOCH),
        (1, 1, [1], 1, codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH),
        (1, 1, [1, 9], 2, codes.CONTROLLER_INVALID_REPLICAS),
        (1, 1, [1, 3], 2, codes.CONTROLLER_BROKER_NOT_ALIVE),
        (1, 1, [2], 2, codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED),  # without the master
        (1, 1, [1], 2, 0),
    ],
)
def test_a_set_in_sync_is_changed_by_its_master_only(
    seat: Seat, master: int, epoch: int, ids: list[int], set_epoch: int, code: int
) -> None:
    set_of_two(seat)
    seat.join(3)
    before = seat.one()
    assert seat.alter(master, epoch, ids, set_epoch).code == code
    assert (seat.one() == before) == (code != 0)


@pytest.mark.parametrize("life", ["", "new"])
def test_request_from_before_a_restart_is_rejected(seat: Seat, life: str) -> None:
    set_of_two(seat)
    before = Claims("old" if life else "")
    seat.join(3, claims=before)
    seat.beat(3, 0, claims=before)
    assert seat.one().in_sync_epoch == 2, "no process of a new replica can be counted too late"
    answer = seat.register(3, 1000, claims=Claims(life, before.life))
    assert answer.ext()["syncStateSetEpoch"] == "3"
    seat.beat(3, 1000, channel=7, claims=Claims(life))
    assert seat.alter(1, 1, [1, 2, 3], 2, 1000).code == codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert seat.alter(1, 1, [1, 2, 3], 3, 1000).code == 0


def test_repeated_registration_leaves_the_set_unchanged(seat: Seat) -> None:
    set_of_two(seat)
    seat.join(3, claims=Claims("a"))
    seat.register(3, claims=Claims("b", "a"))
    before = seat.one()
    assert seat.register(3, claims=Claims("b", "a")).code == 0
    assert seat.one() == before


# ---- elections


def test_the_first_to_ask_is_the_first_master(seat: Seat) -> None:
    seat.join(1)
    seat.join(2)
    assert seat.elect(9).code == codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert seat.elect(2).ext()["masterBrokerId"] == "2"
    seat.beat(2, 0)
    assert seat.elect(1).code == codes.CONTROLLER_MASTER_STILL_EXIST


def test_a_master_that_lives_stays(seat: Seat) -> None:
    set_of_two(seat)
    answer = seat.elect(2)
    assert answer.code == codes.CONTROLLER_MASTER_STILL_EXIST
    assert (answer.ext()["masterBrokerId"], answer.ext()["masterEpoch"]) == ("1", "1")
    assert answer.body == b'{"syncStateSet":[1,2]}'


def test_an_operator_designates_a_replica_in_sync(seat: Seat) -> None:
    set_of_two(seat)
    seat.join(3)
    seat.beat(3, 0)
    assert seat.elect(3, designate=True).code == codes.CONTROLLER_ELECT_MASTER_FAILED
    answer = seat.elect(2, designate=True)
    assert (answer.code, answer.ext()["masterBrokerId"], answer.ext()["masterEpoch"]) == (0, "2", "2")
    assert seat.one().in_sync == (2,)
    assert seat.elect(2, designate=True).code == codes.CONTROLLER_MASTER_STILL_EXIST


def test_the_replica_with_the_newest_epoch_the_longest_log_and_the_lowest_priority_wins(seat: Seat) -> None:
    set_of_two(seat)
    for broker_id in (3, 4, 5):
        seat.join(broker_id)
        seat.beat(broker_id, 0)
    assert seat.alter(1, 1, [1, 2, 3, 4, 5], 2).code == 0
    at = 20_000
    seat.beat(2, at, epoch=1, maxOffset=900)
    seat.beat(3, at, epoch=2, maxOffset=100)
    seat.beat(4, at, epoch=2, maxOffset=200, electionPriority=5)
    seat.beat(5, at, epoch=2, maxOffset=200, electionPriority=3)
    assert seat.elect(2, at).ext()["masterBrokerId"] == "5"


def test_unclean_election_needs_its_setting() -> None:
    for unclean, code in ((False, codes.CONTROLLER_ELECT_MASTER_FAILED), (True, 0)):
        seat = Seat(Engine(), enable_elect_unclean_master=unclean)
        seat.lead()
        set_of_two(seat)
        seat.join(3)
        seat.beat(3, 60_000)
        assert seat.elect(3, 60_000).code == code
        assert seat.one().master == (3 if unclean else 1)


# ---- cleaning


def test_replicas_are_forgotten_and_their_ids_are_not_given_again(seat: Seat) -> None:
    set_of_two(seat)
    invalid = codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert clean(seat, brokerControllerIdsToClean="1;2") == invalid  # alive
    assert clean(seat, brokerControllerIdsToClean="a") == invalid
    assert clean(seat, now=60_000) == invalid  # it has a master
    assert clean(seat, now=60_000, brokerControllerIdsToClean="2") == 0
    one = seat.one()
    assert (list(one.replicas), one.in_sync, one.in_sync_epoch, one.master, one.master_epoch) == ([1], (1,), 3, 1, 1)
    assert seat.ask(codes.CONTROLLER_GET_NEXT_BROKER_ID, CLUSTER).ext()["nextBrokerId"] == "3"


def test_epochs_outlive_the_cleaning_of_a_whole_set(seat: Seat) -> None:
    set_of_two(seat)
    assert clean(seat, isCleanLivingBroker="true") == 0
    assert seat.register(1).code == codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert seat.ask(codes.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME}).code == 2008
    assert clean(seat) == codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    seat.join(3)
    seat.beat(3, 0)
    answer = seat.elect(3)
    assert (answer.code, answer.ext()["masterEpoch"], answer.ext()["syncStateSetEpoch"]) == (0, "3", "4")


def test_a_master_that_is_cleaned_while_it_lives_is_none(seat: Seat) -> None:
    set_of_two(seat)
    assert clean(seat, isCleanLivingBroker="true", brokerControllerIdsToClean="1") == 0
    one = seat.one()
    assert (one.master, one.master_epoch, one.in_sync, list(one.replicas)) == (None, 2, (2,), [2])
    assert seat.elect(2).ext()["masterEpoch"] == "3"


# ---- whatever happens


class Chaos:
    """Three controllers, four brokers, and an engine whose answers are late, lost or refused."""

    def __init__(self, seed: int, unclean: bool) -> None:
        self.random = random.Random(seed)
        self.engine = Engine()
        self.seats = [Seat(self.engine, number, enable_elect_unclean_master=unclean) for number in range(3)]
        self.now = 0
        self.late: list[tuple[Seat, ReplicaSet, int]] = []

    def run(self, steps: int) -> None:
        self.seats[0].lead(0)
        for _ in range(steps):
            self.now += self.random.choice((1, 50, 1000, 7000))
            self.random.choice(
                (self.beat, self.beat, self.ask, self.ask, self.ask, self.tick, self.depose, self.arrive)
            )()

    def beat(self) -> None:
        broker_id = self.random.randint(1, 4)
        epoch, offset = self.random.randint(0, 5), self.random.randint(0, 100)
        for seat in self.random.sample(self.seats, self.random.randint(1, 3)):
            seat.beat(broker_id, self.now, epoch=epoch, maxOffset=offset)

    def ask(self) -> None:
        broker_id = self.random.randint(1, 4)
        one = self.engine.sets[NAME].value if NAME in self.engine.sets else None
        ids = self.random.sample(range(1, 5), self.random.randint(1, 4))
        epoch = one.master_epoch if one is not None and self.random.random() < 0.8 else self.random.randint(0, 5)
        set_epoch = one.in_sync_epoch if one is not None and self.random.random() < 0.8 else 1
        taken = {"appliedBrokerId": str(broker_id), "registerCheckCode": f"{address(broker_id)};{broker_id}"}
        asked = {"brokerId": str(broker_id), "designateElect": self.random.choice(("true", "false"))}
        altered = {"masterBrokerId": str(one.master if one else 1), "masterEpoch": str(epoch)}
        code, ext, body = self.random.choice(
            (
                *[(codes.CONTROLLER_APPLY_BROKER_ID, taken, b"")] * 4,
                *[(codes.CONTROLLER_ELECT_MASTER, asked, b"")] * 4,
                *[(codes.CONTROLLER_ALTER_SYNC_STATE_SET, altered, encode_body(SyncStateSet(ids, set_epoch)))] * 6,
            )
        )
        self.request(code, ext, body)

    def clean(self) -> None:
        ids = self.random.choice(("", "1", "2;3"))
        cleaned = {"brokerControllerIdsToClean": ids, "isCleanLivingBroker": "true"}
        self.request(codes.CLEAN_BROKER_DATA, cleaned, b"")

    def request(self, code: int, ext: dict[str, str], body: bytes) -> None:
        leading = [seat for seat in self.seats if seat.controller.leads]
        seat = self.random.choice(leading or self.seats)
        answer = seat.controller.handle(9, "a:1", make_request(code, 0, CLUSTER | ext, body), self.now)
        if isinstance(answer, Open):
            self.decide(seat, answer)

    def tick(self) -> None:
        for seat in self.seats:
            seat.controller.tick(self.now)
            for effect in seat.controller.take_effects():
                if isinstance(effect, Elect) and seat.controller.leads:
                    self.decide(seat, seat.controller.election(effect.name))

    def depose(self) -> None:
        seat = self.random.choice(self.seats)
        for other in self.seats:
            if other is not seat and self.random.random() < 0.7:  # the others notice later
                other.leads = False
        seat.lead(self.now)

    def decide(self, seat: Seat, opened: Open) -> None:
        found = seat.controller.sets.get(opened.name)
        decision = opened.decide(None if found is None else found.value, self.now)
        if decision.after is None:
            return
        expected = 0 if found is None else found.revision
        if self.random.random() < 0.1:  # the engine does not answer: the controller reads all again before it goes on
            self.late.append((seat, decision.after, expected))
            seat.controller.follow()
            if self.engine.leader == seat.me:
                seat.lead(self.now)
            return
        try:
            seat.controller.kept(decision, self.engine.change(seat.me, decision.after, expected), self.now)
        except LeadershipLost:
            seat.leads = False

    def arrive(self) -> None:
        """What was sent to the engine long ago arrives."""
        if self.late:
            seat, value, expected = self.late.pop()
            try:
                self.engine.change(seat.me, value, expected)
            except LeadershipLost:
                return


@pytest.mark.parametrize("unclean", [False, True])
def test_whatever_happens_an_epoch_has_one_master_and_epochs_grow(unclean: bool) -> None:
    elections = 0
    for seed in range(60):
        chaos = Chaos(seed, unclean)
        chaos.run(300)
        masters: dict[int, int | None] = {}
        before: ReplicaSet | None = None
        for one in chaos.engine.history:
            assert masters.setdefault(one.master_epoch, one.master) == one.master, seed
            assert one.master is None or one.master in one.in_sync, seed
            assert set(one.in_sync) <= one.replicas.keys(), seed
            if before is not None:
                assert one.master_epoch >= before.master_epoch and one.in_sync_epoch >= before.in_sync_epoch, seed
                assert one.next_id >= before.next_id, seed
                assert one.in_sync == before.in_sync or one.in_sync_epoch == before.in_sync_epoch + 1, seed
                if one.master != before.master and one.master is not None:
                    elections += 1
                    assert unclean or not before.elected or one.master in before.in_sync, seed
            before = one
    assert elections > 100
