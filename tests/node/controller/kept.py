"""A replica set to keep, and files that fail to keep it."""

from __future__ import annotations

from bolide.controller.replica_set import Replica, ReplicaSet
from bolide.store.disk.files import FileFailed, RealFiles


def one_set(epoch: int) -> ReplicaSet:
    replicas = {1: Replica("a:1", "a:1;1"), 2: Replica("b:1", "b:1;1")}
    return ReplicaSet(
        cluster="C", name="b", next_id=3, replicas=replicas, master=1, master_epoch=epoch, in_sync=(1, 2), elected=True
    )


class FailingFiles(RealFiles):
    """Files whose writes fail while `failing`: before anything is written, or after all of it is."""

    failing = ""

    def write_file(self, path: str, data: bytes) -> None:
        if self.failing == "before":
            raise FileFailed("the disk fails")
        super().write_file(path, data)
        if self.failing:
            raise FileFailed("the disk fails")
