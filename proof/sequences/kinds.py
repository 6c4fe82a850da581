"""The kinds of sequences, and how many of each a run has."""

from __future__ import annotations

from proof.sequences.steps import Kind
from proof.sequences.store_world import StoreKind
from proof.sequences.topic_world import BrokerKind, TopicKind

SHARES = {"store": 80, "topic": 15, "broker": 5}
"""Parts of a run."""
_KINDS: dict[str, Kind] = {kind.name: kind for kind in (StoreKind(), TopicKind(), BrokerKind())}


def kind_named(name: str) -> Kind:
    """A kind by its name; raises KeyError."""
    return _KINDS[name]
