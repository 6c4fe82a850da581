"""A Kafka 4.1 broker as a process, and its own producer program: jars by Maven, pinned as RocketMQ's are."""

import base64
import subprocess
import uuid
from pathlib import Path

from bench.servers.stopping import Failed, last_line

from proof.interop.java_artefacts import jars, tool
from proof.kit.ports import reserve_port
from proof.kit.processes import ChildProcess

VERSION = "4.1.1"
JARS = f"kafka-{VERSION}"
PARTITIONS = 8
# What bin/kafka-server-start.sh of the release gives the JVM.
_FLAGS = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log.kafka.server=info")
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.dirs={logs}
"""


def _java(*flags: str) -> list[str]:
    return [tool("java"), *flags, *_QUIET, "-cp", f"{jars(JARS)}/*"]


class KafkaBroker(ChildProcess):
    """One node that is broker and controller, with Kafka's defaults apart from names, paths and ports."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.port = reserve_port(1)
        self.address = f"127.0.0.1:{self.port}"
        settings = home / "server.properties"
        values = {"port": self.port, "controller": self.port + 1, "partitions": PARTITIONS, "logs": home / "logs"}
        settings.write_text(_SETTINGS.format_map(values), encoding="ascii")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        _run([*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)], "format its folder")
        super().__init__([*_java(*_FLAGS), "kafka.Kafka", str(settings)], home / "kafka.out")
        try:
            self.wait_ready("Kafka Server started")
        except AssertionError as error:
            raise Failed(f"the Kafka broker did not start: {last_line(str(error))}") from None

    def fill(self, topic: str, messages: int, body: int) -> None:
        """Send messages by Kafka's own ProducerPerformance; the topic is made by the first."""
        command = [*_java("-Xmx512m"), "org.apache.kafka.tools.ProducerPerformance", "--topic", topic]
        command += ["--num-records", str(messages), "--record-size", str(body), "--throughput", "-1"]
        _run([*command, "--producer-props", f"bootstrap.servers={self.address}", "acks=1"], "fill the Kafka topic")


def _run(command: list[str], purpose: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"could not {purpose}: {last_line(done.stderr or done.stdout)}")
