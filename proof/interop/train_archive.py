"""Runs the programs of a RocketMQ release for seconds, so that their JVMs list the classes that they load.

    python -m proof.interop.train_archive VERSION

`class_archives` starts it, with the folder of the lists in its environment.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from proof.interop.java_artefacts import BROKER_VERSION, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient, JavaController, JavaNameServer, MqAdmin
from proof.kit.our_processes import OurBroker, OurNameServer


def run(version: str, home: Path, ends: ExitStack) -> None:
    """Send and consume some messages. A release that is published without a broker talks to Bolide's."""
    served = version in (BROKER_VERSION, OLD_BROKER_VERSION)
    names = JavaNameServer(home / "names", version) if served else OurNameServer(home / "names")
    ends.callback(names.kill)
    broker = (
        JavaBroker(home / "broker", names.address, version=version)
        if served
        else OurBroker(home / "broker", names.address)
    )
    ends.callback(broker.kill)
    if version == BROKER_VERSION:
        ends.callback(JavaController(home / "controller").kill)
    client = JavaClient(home / "client", names.address, version)
    ends.callback(client.kill)
    client.call("send", topic="T", mode="sync", count=3)
    client.call("consume", group="g", topic="T")
    client.call("await", group="g", count=3)
    if served:
        admin = MqAdmin(home / "admin", names.address, version)
        ends.callback(admin.kill)
        for line in ("updateTopic -c DefaultCluster -t U", "topicStatus -t T", "consumerProgress -g g"):
            admin.told(line)


def main(version: str) -> None:
    """Run a release, and end its programs."""
    with TemporaryDirectory(prefix="bolide-") as home, ExitStack() as ends:
        run(version, Path(home), ends)


if __name__ == "__main__":
    main(sys.argv[1])
