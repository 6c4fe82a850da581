"""What is known of the replicas of one broker name, and how it is kept."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bolide.errors import LocalError
from bolide.remoting.replica_claims import NOT_KNOWN

FORMAT: Final = 1
FIRST_ID: Final = 1


class StateDamaged(LocalError):
    """What was kept of a set of replicas cannot be read. No decision may be made without it."""


class Replica(Struct, frozen=True, rename="camel"):
    """One broker. check_code: what it took its id with, `address;ms`; only the same code takes it again."""

    address: str
    check_code: str
    life: str = ""
    """Token of the last start that registered (`remoting/replica_claims.py`); empty for a broker that sends none.

    Each start replaces the token, so an older copy of the store folder, or a clone of it, has one that does not fit."""
    joined: str = ""
    """The token when this replica last joined the set in sync, or became its master."""
    fresh: bool = False
    """Whether it has never registered, so that no master can have counted on its log."""


class Office(Struct, frozen=True, rename="camel"):
    """The last master that a set elected, and what the set has confirmed since the beginning."""

    master: int
    epoch: int
    confirmed: int = NOT_KNOWN
    """Log offset below which every replica in sync held the log, as far as masters whose sends wait have reported."""
    synced: bool = False
    """Whether that was on disk when it was acknowledged."""


class ReplicaSet(Struct, frozen=True, rename="camel", kw_only=True):
    """The replicas of one broker name. A value: a decision makes a new one.

    A set that was removed stays as one without replicas: epochs and ids must not begin again while a broker
    somewhere remembers the old ones.
    """

    cluster: str
    name: str
    next_id: int = FIRST_ID
    """Above every id that was ever given."""
    replicas: dict[int, Replica]
    master: int | None = None
    master_epoch: int = 0
    in_sync: tuple[int, ...] = ()
    """The ids that have everything acknowledged, in ascending order."""
    in_sync_epoch: int = 0
    elected: bool = False
    """False until the first election: the broker that asks for it is elected."""
    former: tuple[int, ...] = ()
    """Members of the set before the last election. Each of them can still be elected, because the elected replica has
    not taken its office: it has confirmed nothing. Empty once it has."""
    office: Office | None = None
    """None before the first election, and in a set that an older controller kept."""

    @property
    def electable(self) -> tuple[int, ...]:
        """The replicas that have every confirmed message."""
        return self.former or self.in_sync

    def with_joined(self, *broker_ids: int) -> dict[int, Replica]:
        """The replicas, of which these join the set in sync now."""
        joined = {each: replace(self.replicas[each], joined=self.replicas[each].life) for each in broker_ids}
        return {**self.replicas, **joined}

    def address_of(self, broker_id: int | None) -> str | None:
        """The address of a replica; None when it is not known."""
        replica = None if broker_id is None else self.replicas.get(broker_id)
        return None if replica is None else replica.address


class _Kept(Struct, frozen=True):
    format: int
    set: ReplicaSet


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Kept)


def encode_set(one: ReplicaSet) -> bytes:
    """A set as it is kept: JSON that says its format."""
    return _ENCODER.encode(_Kept(FORMAT, one))


def decode_set(data: bytes, where: str) -> ReplicaSet:
    """The set that was kept. Raises `StateDamaged` when it cannot be read or has another format."""
    try:
        kept = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDamaged(f"{where} cannot be read: {error}") from None
    if kept.format != FORMAT:
        raise StateDamaged(f"{where} has format {kept.format}, and this controller reads {FORMAT}: run a newer one")
    return kept.set
