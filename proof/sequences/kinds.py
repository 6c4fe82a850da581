"""The kinds of sequences, and how many of each a run has."""

from __future__ import annotations

from proof.sequences.steps import Kind
from proof.sequences.store_world import StoreKind
from proof.sequences.topic_world import BrokerKind, JavaKind, SparkKind, TopicKind

SHARES = {"store": 80, "topic": 15, "broker": 5}
"""Parts of a run of all kinds."""
ASKED = ("java", "spark")
"""Kinds that are played only if they are asked for: each needs seconds."""
_EVERY: tuple[Kind, ...] = (StoreKind(), TopicKind(), BrokerKind(), JavaKind(), SparkKind())
_KINDS = {kind.name: kind for kind in _EVERY}


def kind_named(name: str) -> Kind:
    """A kind by its name; raises KeyError."""
    return _KINDS[name]
