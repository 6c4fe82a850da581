"""Bolide's traces, read by Java's TraceDataEncoder and written again by it byte for byte, and found by its mqadmin."""

import subprocess
from pathlib import Path

import pytest

from bolide.client import Message, ReceivedMessage
from bolide.client.tracing.trace import COMMITTED, DELAYED, FAILED, TraceBean, TraceContext, decode_trace, encode_trace
from bolide.testing.broker import Broker
from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS, jars, source_folder, tool
from proof.interop.java_processes import MqAdmin
from proof.interop.matrix import PROGRAM, marked
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Producer, PushConsumer

pytestmark = pytest.mark.java

TRACE_LINES = source_folder() / "TraceLines.java"
FULL = TraceBean("ID1", "T", "A", "k1 k2", "10.0.0.1:10911", "OFF", 12, DELAYED)
BARE = TraceBean("ID2", "Tö", store_host="h:1")
DECIDED = TraceBean(
    "ID1", "T", "A", "k1", "h:1", message_type=COMMITTED, transaction_id="ID1", transaction_state="UNKNOW"
)
STEPS = [
    TraceContext("Pub", 1700000000000, "P", (FULL,), "Region", 7),
    TraceContext("Pub", 1700000000000, "P", (BARE,), success=False),
    TraceContext("SubBefore", 1, "G", (TraceBean("ID1", keys="k", retry_times=2), TraceBean("ID2")), request_id="REQ"),
    TraceContext("SubAfter", 2, "G", (TraceBean("ID1", keys="k"), TraceBean("ID2")), "", 3, False, "REQ", FAILED),
    TraceContext("EndTransaction", 3, "P", (DECIDED,)),
]


@marked(PROGRAM, "trace lines, both codecs")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_java_reads_and_writes_the_same_lines(tmp_path: Path, version: str) -> None:
    text = "".join(map(encode_trace, STEPS))
    given, written = tmp_path / "given", tmp_path / "written"
    given.write_bytes(text.encode())
    command = [tool("java"), "-cp", f"{jars(version)}/*", str(TRACE_LINES), str(given), str(written)]
    done = subprocess.run(command, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert written.read_bytes() == given.read_bytes()
    assert [step.kind for step in decode_trace(text)] == [
        *("Pub", "Pub", "SubBefore", "SubBefore", "SubAfter", "SubAfter", "EndTransaction")
    ]


@pytest.mark.matrix(feature="mqadmin finds our traces", version=BROKER_VERSION, direction=PROGRAM)
@pytest.mark.bolide_broker(trace_topic_enable=True)
async def test_mqadmin_finds_a_trace_by_the_id_of_its_message(bolide_broker: Broker, tmp_path: Path) -> None:
    namesrv = bolide_broker.namesrv_addr
    seen: list[ReceivedMessage] = []
    consumer = PushConsumer("Traced-group", namesrv, start_from="first", trace=True)
    consumer.subscribe("T", "*", seen.append)
    async with Producer("Tracing-group", namesrv, trace=True) as producer, consumer:
        sent = await producer.send(Message("T", b"12345", tags="A", keys="k1"))
        await until(lambda: seen, "the message", PROCESS_PATIENCE)
    admin = MqAdmin(tmp_path, bolide_broker.namesrv_addr)
    try:
        printed = admin.run("queryMsgTraceById", "-i", sent.message_id)
    finally:
        admin.close()
    lines = [line.split() for line in printed.splitlines()]
    assert ["Pub", "Tracing-group"] in [line[:2] for line in lines], printed
    assert ["Sub", "Traced-group"] in [line[:2] for line in lines], printed
    assert {line[-1] for line in lines if line[:1] in (["Pub"], ["Sub"])} == {"success"}
