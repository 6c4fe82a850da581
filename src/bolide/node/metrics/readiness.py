"""Why a node should get no work just now: what /readyz says."""

from __future__ import annotations

from bolide.node.routes.registrar import Registration
from bolide.store.message_store import MessageStore


def broker_troubles(store: MessageStore, registration: Registration | None, follows: bool) -> list[str]:
    """A sentence for each; nothing while the broker serves. On any thread."""
    troubles: list[str] = []
    if store.failure:
        troubles.append(f"the store has failed: {store.failure}")
    elif not store.writable() and not follows:
        troubles.append(f"the store takes no messages: {store.flags.describe()}")
    if not store.readable():
        troubles.append("the store cannot be read")
    if registration is not None and registration.known_by == 0:
        troubles.append(f"no name server knows this broker: {registration.servers} are set, none took its registration")
    return troubles
