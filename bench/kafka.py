"""Spark's own Kafka source beside ours, in turns, in one session on the same cores.

    python bench/kafka.py [--messages 2000000] [--body 128] [--cores 2] [--rounds 3] [--json [FILE]]

A Kafka 4.1 broker gets the messages from Kafka's own ProducerPerformance into eight partitions, a Bolide broker from
Bolide's sink into eight queues. Each read takes topic, partition or queue, offset, time and body. Each case is read
once before anything counts, then once a round; the limit is what Spark makes of Arrow batches that are ready in Python.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report.kafka_reads import Read, ratios, table
from bench.report.shown import Step, add_json_option, say, write_json
from bench.servers.kafka_broker import JARS, VERSION, KafkaBroker
from bench.servers.machine import describe
from bench.servers.stopping import Failed, measured

from bolide.spark.bench.measure import Bench, sink, to_nowhere, topic_of, tree_cpu_seconds
from bolide.spark.bench.ready import FIVE_DDL, ReadySource
from bolide.spark.bench.store import QUEUES
from bolide.spark.session.session import job_session
from proof.interop.java_artefacts import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT, KAFKA = "limit", "Spark's Kafka source"
PULLS = (32, 1024)
SOURCE_JARS = "spark-kafka-4.2.0"
"""Spark's Kafka source of the newest version on Maven Central; it runs in later Sparks too."""
KAFKA_TOPIC = "bench"
TRANSFER_COUNT = 1024


def ours(pulled: int) -> str:
    """The name of our source's case."""
    return f"Bolide's source, {pulled:,} a pull"


def source_jars() -> str:
    """The jars of Spark's Kafka source that a PySpark does not hold, for `spark.jars`."""
    return ",".join(str(jar) for jar in sorted(jars(SOURCE_JARS).glob("*.jar")))


def frames(spark: "SparkSession", address: str, namesrv: str, chosen: argparse.Namespace) -> dict[str, "DataFrame"]:
    """What is read in each case."""
    spark.dataSource.register(ReadySource)
    ready = {"rows": chosen.messages, "body": chosen.body, "partitions": 4 * chosen.cores}
    kafka = {"kafka.bootstrap.servers": address, "subscribe": KAFKA_TOPIC, "startingOffsets": "earliest"}
    found = {
        LIMIT: spark.read.format("bolide-bench-ready").options(**ready).load(),
        KAFKA: spark.read.format("kafka").options(**kafka).load()
        .select("topic", "partition", "offset", "timestamp", "value"),
    }  # fmt: skip
    live = {"namesrv": namesrv, "subscribe": topic_of(chosen.body, chosen.cores)}
    for pulled in PULLS:
        reader = spark.read.format("rocketmq").options(**live, pullBatchSize=pulled)
        found[ours(pulled)] = reader.schema(FIVE_DDL).load()
    return found


def measure(found: dict[str, "DataFrame"], messages: int, rounds: int) -> list[Read]:
    """Count and read each once, then once a round; even rounds go the other way round."""
    for name, frame in found.items():
        with Step(f"warming {name}"):
            counted = frame.count()
            if counted != messages and name != LIMIT:
                raise Failed(f"{name} finds {counted:,} of {messages:,} messages")
            to_nowhere(frame)
    reads: list[Read] = []
    for number in range(1, rounds + 1):
        for name in found if number % 2 else reversed(found):
            with Step(f"round {number}, {name}"):
                cpu, began = tree_cpu_seconds(), time.monotonic()
                to_nowhere(found[name])
                seconds = time.monotonic() - began
                reads.append(Read(name, number, messages, seconds, tree_cpu_seconds() - cpu))
            say(f"round {number}, {name}: {reads[-1].rate:,.0f} rows/s")
    return reads


def run(chosen: argparse.Namespace, work: Path, ends: ExitStack) -> list[Read]:
    """Start and fill the brokers and the session, then measure; `ends` stops them."""
    from pyspark.errors import PySparkException

    from bolide.admin.blocking import Admin
    from bolide.cli.bench.broker import BrokerProcess

    with Step(f"looking for the jars of Kafka {VERSION} and of Spark's source"):
        jars(JARS)
        settings = {"spark.log.level": "OFF", "spark.jars": source_jars()}
    with Step("starting a Kafka broker"):
        kafka = KafkaBroker(work / "kafka")
    ends.callback(kafka.kill)
    with Step(f"sending {chosen.messages:,} messages to Kafka"):
        kafka.fill(KAFKA_TOPIC, chosen.messages, chosen.body)
    broker = BrokerProcess(work / "broker", {"maxTransferCountOnMessageInMemory": str(TRANSFER_COUNT)})
    ends.callback(broker.stop)
    with Admin(broker.namesrv) as admin:
        admin.create_topic(topic_of(chosen.body, chosen.cores), queues=QUEUES)
    spark = job_session("bench kafka", f"local[{chosen.cores}]", work / "spark", settings)
    ends.callback(spark.stop)
    try:
        with Step(f"sending {chosen.messages:,} messages to our broker"):
            sink(Bench(spark, chosen.cores, chosen.body, chosen.messages, work, broker.namesrv))
        return measure(frames(spark, kafka.address, broker.namesrv, chosen), chosen.messages, chosen.rounds)
    except PySparkException as error:
        raise Failed(f"Spark failed: {str(error).splitlines()[0]}") from None


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--body", type=int, default=128, help="bytes of a body")
    parser.add_argument("--cores", type=int, default=2, help="of Spark's local master")
    parser.add_argument("--rounds", type=int, default=3)
    add_json_option(parser)
    chosen = parser.parse_args()
    if min(chosen.messages, chosen.body, chosen.cores, chosen.rounds) < 1:
        parser.error("messages, body, cores and rounds are whole numbers from 1")
    return chosen


def as_values(reads: Sequence[Read], body: int, cores: int) -> dict[str, Any]:
    """Everything measured, for JSON."""
    values: dict[str, Any] = {"machine": describe(), "body": body, "cores": cores}
    values["reads"] = [{**asdict(read), "rows_per_second": round(read.rate)} for read in reads]
    return values | {"of_kafka": ratios(reads, KAFKA), "of_the_limit": ratios(reads, LIMIT)}


def main() -> int:
    """Measure and print."""
    chosen = arguments()
    reads = measured("kafka", None, lambda work, ends: run(chosen, work, ends))
    if chosen.json != "-":
        print(table(reads, KAFKA, LIMIT))
    write_json(as_values(reads, chosen.body, chosen.cores), chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
