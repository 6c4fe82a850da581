"""State of one broker set and its stored form."""

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
    """The stored state of a broker set cannot be read. No decision may be made without it."""


class Replica(Struct, frozen=True, rename="camel"):
    """One broker. `check_code` is the code `address;ms` with which it applied for its id. A later request gets the same
    id only with the same code."""

    address: str
    check_code: str
    life: str = ""
    """Token of the last registered start (`remoting/replica_claims.py`); empty for a broker that sends no token.

    Each start replaces the token, so an older copy or a clone of the store folder has an outdated one.
    """
    joined: str = ""
    """The token of this replica when it last joined the in-sync set or became its master."""
    fresh: bool = False
    """Whether the replica has never registered, so that no master can have relied on its log."""


class Office(Struct, frozen=True, rename="camel"):
    """Term of the last elected master of a set, with its confirm offset."""

    master: int
    epoch: int
    confirmed: int = NOT_KNOWN
    """Offset below which every in-sync replica holds the log, or NOT_KNOWN. Reported by a master whose sends wait for
    its slaves."""
    synced: bool = False
    """Whether the log below `confirmed` was on disk when its messages were acknowledged."""


class ReplicaSet(Struct, frozen=True, rename="camel", kw_only=True):
    """The broker set with one broker name. Immutable: a decision creates a new object.

    A removed set remains, without replicas: epochs and ids must not restart while a broker may still have the old ones.
    """

    cluster: str
    name: str
    next_id: int = FIRST_ID
    """Higher than every id assigned so far."""
    replicas: dict[int, Replica]
    master: int | None = None
    master_epoch: int = 0
    in_sync: tuple[int, ...] = ()
    """Ids of the in-sync replicas, in ascending order."""
    in_sync_epoch: int = 0
    elected: bool = False
    """Whether a master was ever elected. The first broker that requests an election is elected."""
    former: tuple[int, ...] = ()
    """Members of the set before the last election. They remain electable until the elected replica takes office,
    because it has confirmed no message yet. Empty after that."""
    office: Office | None = None
    """The last office. None before the first election, and in a set that was stored by an older controller."""

    @property
    def electable(self) -> tuple[int, ...]:
        """The replicas that have every confirmed message."""
        return self.former or self.in_sync

    def with_joined(self, *broker_ids: int) -> dict[int, Replica]:
        """Return the replicas after these have joined the in-sync set."""
        joined = {each: replace(self.replicas[each], joined=self.replicas[each].life) for each in broker_ids}
        return {**self.replicas, **joined}

    def address_of(self, broker_id: int | None) -> str | None:
        """Return the address of a replica, or None if it is unknown."""
        replica = None if broker_id is None else self.replicas.get(broker_id)
        return None if replica is None else replica.address


class _Kept(Struct, frozen=True):
    format: int
    set: ReplicaSet


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Kept)


def encode_set(one: ReplicaSet) -> bytes:
    """Encode a set for storage: JSON with a format number."""
    return _ENCODER.encode(_Kept(FORMAT, one))


def decode_set(data: bytes, where: str) -> ReplicaSet:
    """Decode a stored set. Raises `StateDamaged` if it is unreadable or has another format."""
    try:
        kept = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateDamaged(f"{where} cannot be read: {error}") from None
    if kept.format != FORMAT:
        raise StateDamaged(f"{where} has format {kept.format}, and this controller reads {FORMAT}: run a newer one")
    return kept.set
