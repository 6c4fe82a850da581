"""Who is let in, where the check itself fails; what is logged is in tests/node/test_broker_access.py."""

from __future__ import annotations

from bolide.access.gate import Gate, Rules
from bolide.access.policies import Acls
from bolide.access.users import Credentials, User, Users
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome
from bolide.node.loop.admission import Admission
from bolide.remoting.codes import NO_PERMISSION, SYSTEM_ERROR
from bolide.remoting.command import make_request
from bolide.remoting.request_routes import RequestTable
from tests.broker.parts import PEER


class FaultyUsers(Users):
    """Users that cannot be looked up."""

    def get(self, name: str) -> User | None:
        raise RuntimeError("the users are gone")


def admission(users: Users | None) -> Admission:
    rules = Rules(False, False, frozenset(), frozenset(), "c")
    table: RequestTable[Channel, Outcome] = RequestTable()
    return Admission(table, None if users is None else Gate(users, Acls(), table.rows, rules))


def test_a_fault_of_the_check_lets_nobody_in() -> None:
    request = Credentials("alice", "alicepw").sign(make_request(28, 1))
    refusal = admission(FaultyUsers()).refusal(Channel(1, PEER, "10.1.2.3:4567"), request)
    assert refusal is not None and (refusal.code, refusal.remark) == (SYSTEM_ERROR, "RuntimeError: the users are gone")


def test_without_a_gate_everybody_is_let_in() -> None:
    channel, request = Channel(1, PEER, "10.1.2.3:4567"), make_request(28, 1)
    assert admission(None).refusal(channel, request) is None
    refusal = admission(Users()).refusal(channel, request)
    assert refusal is not None and refusal.code == NO_PERMISSION
