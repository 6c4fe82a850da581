"""Slave and master that prove themselves to each other, and peers that forge, replay or change bytes."""

from __future__ import annotations

import pytest

from bolide.access.proven_stream import (
    HELLO,
    MOST_FRAME,
    NONCE_BYTES,
    MasterStream,
    NotProven,
    ProvenStream,
    SlaveStream,
)
from bolide.access.users import Credentials

SECRETS = {"cluster": "secret-1", "admin": "secret-2"}
MEMBER = Credentials("cluster", "secret-1")


SET = "DefaultCluster#broker-a"


def slave(who: Credentials = MEMBER, number: int = 1, of: str = SET) -> SlaveStream:
    return SlaveStream(who, of, bytes([number]) * NONCE_BYTES)


def master(number: int = 2, of: str = SET) -> MasterStream:
    return MasterStream(SECRETS.get, of, bytes([number]) * NONCE_BYTES)


def agree(to: ProvenStream, of: ProvenStream, step: int = 1 << 20) -> bytes:
    """Carry the handshake between both, `step` bytes at a time; return all that the slave sent."""
    sent = b""
    while True:
        out, back = to.take(), of.take()
        if not (out or back):
            return sent
        sent += out
        for stream, data in ((of, out), (to, back)):
            for at in range(0, len(data), step):
                assert stream.receive(data[at : at + step]) == b""


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_data_passes_both_ways_once_both_are_proven(step: int) -> None:
    to, of = slave(), master()
    agree(to, of, step)
    assert to.proven and of.proven
    for giver, taker in ((to, of), (of, to), (of, to)):
        data = b"a part of the log" * 10
        sealed = giver.seal(data)
        assert b"".join(taker.receive(sealed[at : at + step]) for at in range(0, len(sealed), step)) == data
    big = bytes(2 * MOST_FRAME + 5)
    assert to.receive(of.seal(big)) == big
    assert to.receive(of.seal(b"")) == b""


def test_second_user_may_prove_itself_too() -> None:
    to, of = slave(Credentials("admin", "secret-2")), master()
    agree(to, of)
    assert to.proven and of.proven


@pytest.mark.parametrize("liar", [Credentials("cluster", "secret-2"), Credentials("cluster", "")])
def test_wrong_secret_is_noticed_by_master_before_it_proves_itself(liar: Credentials) -> None:
    to, of = slave(liar), master()
    of.receive(to.take())
    to.receive(of.take())
    with pytest.raises(NotProven, match="its secret, brokerClusterName or brokerName differs"):
        of.receive(to.take())
    assert not of.proven and of.take() == b""


def test_wrong_secret_is_noticed_by_slave() -> None:
    to, of = slave(), MasterStream(lambda name: "a guess", SET, bytes(NONCE_BYTES))
    of.receive(to.take())
    to.receive(of.take())
    forged = MasterStream(lambda name: "a guess", SET, bytes(NONCE_BYTES))
    forged.receive(slave(Credentials("cluster", "a guess")).take())
    with pytest.raises(NotProven, match="its secret, brokerClusterName or brokerName differs"):
        to.receive(forged.seal(b"") or bytes(4 + 16))
    assert not to.proven


def test_unknown_name_is_refused() -> None:
    with pytest.raises(NotProven, match="its credentials 'stranger' are unknown here"):
        master().receive(slave(Credentials("stranger", "secret-1")).take())


@pytest.mark.parametrize("begin", [bytes(8), bytes([0, 0, 0, 1]), b"\xffBOLIDF\x02", b"GET /"])
def test_other_beginnings_are_refused(begin: bytes) -> None:
    with pytest.raises(NotProven, match="set clusterAuthenticationEnabled and innerClientAuthenticationCredentials"):
        master().receive(begin)
    with pytest.raises(NotProven, match="set the same innerClientAuthenticationCredentials, brokerClusterName"):
        slave().receive(begin)


@pytest.mark.parametrize("version", [1, 3])
def test_other_version_of_the_proof_is_named(version: int) -> None:
    for side in (master(), slave()):
        with pytest.raises(
            NotProven, match=f"it has version {version} of the proof, and this broker version 2: update"
        ):
            side.receive(b"\xffBOLIDE" + bytes([version]))


@pytest.mark.parametrize("other", ["DefaultCluster#broker-b", "Other#broker-a", ""])
def test_slave_and_master_of_two_sets_with_one_secret_do_not_prove_themselves(other: str) -> None:
    to, of = slave(), master(of=other)
    of.receive(to.take())
    to.receive(of.take())
    with pytest.raises(NotProven, match="its secret, brokerClusterName or brokerName differs"):
        of.receive(to.take())
    assert not of.proven and of.take() == b""
    of._on_proven()  # a relay between them passes on what a master sends to a proven slave
    with pytest.raises(NotProven, match="its secret, brokerClusterName or brokerName differs"):
        to.receive(of.take())
    assert not to.proven


def test_recorded_connection_cannot_be_replayed() -> None:
    to, of = slave(), master(2)
    recorded = agree(to, of) + to.seal(bytes(8))
    again = master(3)
    with pytest.raises(NotProven):
        again.receive(recorded)
    assert not again.proven


def test_own_bytes_are_not_accepted_as_the_peers() -> None:
    to, of = slave(), master()
    agree(to, of)
    with pytest.raises(NotProven, match="changed on the way"):
        of.receive(of.seal(b"from the master"))


@pytest.mark.parametrize("change", ["flip", "drop", "twice", "insert"])
def test_changed_bytes_are_noticed(change: str) -> None:
    to, of = slave(), master()
    agree(to, of)
    first, second = of.seal(b"first"), of.seal(b"second")
    changed = {
        "flip": first[:5] + bytes([first[5] ^ 1]) + first[6:],
        "drop": second,
        "twice": first + first,
        "insert": first + (3).to_bytes(4, "big") + b"own" + bytes(16),
    }[change]
    with pytest.raises(NotProven, match="changed on the way"):
        to.receive(changed)


def test_lengths_are_limited() -> None:
    to, of = slave(), master()
    of.receive(to.take())
    to.receive(of.take())
    with pytest.raises(NotProven, match="too long"):
        of.receive((1).to_bytes(4, "big"))
    to, of = slave(), master()
    agree(to, of)
    with pytest.raises(NotProven, match="too long"):
        to.receive((MOST_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(NotProven, match="name of its credentials is too long"):
        master().receive(HELLO + bytes(NONCE_BYTES) + b"\xff\xff")
