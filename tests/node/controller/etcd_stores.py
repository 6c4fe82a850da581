"""Stores of controllers in a real etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bolide.controller.consensus import Member
from bolide.controller.options import ControllerOptions
from bolide.node.controller.etcd import Etcd
from bolide.node.controller.etcd_place import endpoints
from bolide.node.controller.etcd_store import EtcdStore
from bolide.world.real import RealWorld
from tests.node.controller.etcds import EtcdMember, store_of

LEASE = 20
"""Much longer than a machine stands still."""
PATIENT_S = 30.0
"""For an answer of etcd, which syncs what it writes."""


def client(members: list[EtcdMember], options: ControllerOptions | None = None) -> Etcd:
    found = endpoints(store_of(members).removeprefix("etcd:"), options or ControllerOptions())
    return Etcd(RealWorld(), found, PATIENT_S)


@asynccontextmanager
async def store(
    members: list[EtcdMember], group: str, number: int = 0, options: ControllerOptions | None = None
) -> AsyncIterator[EtcdStore]:
    own = Member(f"n{number}", f"127.0.0.1:{number + 1}")
    made = EtcdStore(RealWorld(), client(members, options), group, own, LEASE)
    made.start()
    try:
        yield made
    finally:
        await made.stop()
