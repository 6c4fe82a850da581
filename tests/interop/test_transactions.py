"""Transactions with check-back: Java producers against our broker, our producer against Java brokers."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, ReceivedMessage, TransactionState
from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS, OLD_BROKER_VERSION
from proof.interop.java_processes import JavaBroker, JavaClient, JavaNameServer, wait_registered
from proof.interop.matrix import STORE_BACK, STORE_OUT, to_ours
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.small import QUICK_CHECKS
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import PushConsumer, TransactionProducer
from tests.interop.asked_back import asked_while_open

pytestmark = pytest.mark.java

QUICK = {
    **QUICK_CHECKS,
    "flushDiskType": "ASYNC_FLUSH",
}
EXECUTE, CHECK = "crucuu", "..r.cu"
"""What becomes of each message when it is sent, and what its producer says later of those it left open."""
SEEN = ["tx-0", "tx-3", "tx-4"]
CHECKS = 5
"""As many seconds a client may be busy elsewhere before what it would have committed is given up."""
OPEN = "open transactions"
LEFT_OPEN = {"tx-2", "tx-4", "tx-5"}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    server = OurNameServer(tmp_path_factory.mktemp("namesrv"))
    yield server
    assert server.stop() == 0, server.output()


@pytest.fixture(scope="module")
def broker(namesrv: OurNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """A Bolide broker that asks soon, and gives up soon."""
    settings = {**QUICK, "transactionCheckMax": str(CHECKS)}
    server = OurBroker(tmp_path_factory.mktemp("broker"), namesrv.address, settings)
    wait_registered(namesrv.address)
    yield server
    assert server.stop() == 0, server.output()


@pytest.mark.xdist_group("java-transactions")
@to_ours("transaction with check-back")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_a_java_producer(
    namesrv: OurNameServer, broker: OurBroker, tmp_path_factory: pytest.TempPathFactory, version: str, binary: bool
) -> None:
    name = f"{version.replace('.', '')}{'b' if binary else 'j'}"
    client = JavaClient(tmp_path_factory.mktemp(name), namesrv.address, version, binary_header=binary)
    topic = f"tx_{name}"
    try:
        results = client.call("transact", topic=topic, group=f"txp_{name}", execute=EXECUTE, check=CHECK)
        assert [result["status"] for result in results] == ["SEND_OK"] * 6
        client.call("consume", group=f"txc_{name}", topic=topic)
        client.call("consume", group=f"txl_{name}", topic="TRANS_CHECK_MAX_TIME_TOPIC")
        got = client.call("await", group=f"txc_{name}", count=3)
        lost = await_lost(client, f"txl_{name}", results[5]["msgId"])
        checks = checked(client, f"txp_{name}", "tx-5", CHECKS)
    finally:
        client.close()
    assert sorted(message["keys"] for message in got) == SEEN
    assert {message["keys"] for message in checks} >= LEFT_OPEN
    ended = [message for message in got if message["keys"] not in LEFT_OPEN]
    assert asked_while_open([message for message in checks if message["keys"] not in LEFT_OPEN], ended)
    sent = {f"tx-{number}": result for number, result in enumerate(results)}
    for message in got:
        assert (message["queueId"], message["msgId"]) == (
            sent[message["keys"]]["queueId"],
            sent[message["keys"]]["msgId"],
        )
        assert message["properties"]["PGROUP"] == f"txp_{name}"
        assert message["body"] == message["keys"]
    for message in checks:
        assert (message["topic"], message["body"]) == (topic, message["keys"])
        assert message["queueId"] == sent[message["keys"]]["queueId"]
        assert message["storeTimestamp"] - message["bornTimestamp"] > int(QUICK["transactionTimeOut"])
    times = [m["properties"]["TRANSACTION_CHECK_TIMES"] for m in checks if m["keys"] == "tx-5"]
    assert times == [str(time) for time in range(1, CHECKS + 1)]
    assert lost["keys"] == "tx-5"


def checked(client: JavaClient, group: str, key: str, times: int) -> list[dict[str, Any]]:
    """All checks of a group once one message has had so many: of others there may be more where the machine is busy."""
    what = f"{times} checks of {key}"
    return client.await_until(group, lambda got: sum(message["keys"] == key for message in got) >= times, what)


def await_lost(client: JavaClient, group: str, message_id: str) -> dict[str, Any]:
    """The message of this id among those that were given up."""
    got = client.await_until(
        group, lambda got: any(message["msgId"] == message_id for message in got), f"{message_id} is given up"
    )
    return next(message for message in got if message["msgId"] == message_id)


class Listener:
    """Does with each message what the words above say."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    async def execute(self, message: Message, argument: int) -> TransactionState:
        return state(EXECUTE, argument)

    async def check(self, message: ReceivedMessage) -> TransactionState:
        self.checked.append(message.keys[0])
        return state(CHECK, int(message.properties["number"]))


def state(word: str, number: int) -> TransactionState:
    return {"c": TransactionState.COMMIT, "r": TransactionState.ROLLBACK}.get(word[number], TransactionState.UNKNOWN)


@pytest.mark.parametrize("version", [BROKER_VERSION, OLD_BROKER_VERSION])
async def test_our_producer_and_a_java_broker(tmp_path_factory: pytest.TempPathFactory, version: str) -> None:
    namesrv = JavaNameServer(tmp_path_factory.mktemp("namesrv"), version)
    broker = JavaBroker(tmp_path_factory.mktemp("broker"), namesrv.address, QUICK, version=version)
    listener = Listener()
    got: list[ReceivedMessage] = []

    async def take(message: ReceivedMessage) -> None:
        got.append(message)

    try:
        async with TransactionProducer("txp", namesrv.address, listener) as producer:
            for number in range(len(EXECUTE)):
                message = Message("tx", b"tx", keys=f"tx-{number}", properties={"number": str(number)})
                result = await producer.send_in_transaction(message, number)
                assert result.state is state(EXECUTE, number)
            consumer = PushConsumer("txc", namesrv.address, start_from="first")
            consumer.subscribe("tx", "*", take)
            async with consumer:
                await until(
                    lambda: keys(got) >= set(SEEN) and "tx-5" in listener.checked, "three messages", PROCESS_PATIENCE
                )
    finally:
        broker.kill()  # nobody reads the store: a good end takes 15 s
        namesrv.kill()
    assert keys(got) == set(SEEN)
    decided_at_once = [message.keys[0] for message in got if message.keys[0] not in LEFT_OPEN]
    assert sorted(decided_at_once) == ["tx-0", "tx-3"]
    # Java asks again before it has written down an answer: about decided ones, too, and commits what is said twice.
    assert set(listener.checked) >= LEFT_OPEN


def keys(messages: list[ReceivedMessage]) -> set[str]:
    return {message.keys[0] for message in messages}


@pytest.fixture
def lonely_namesrv(tmp_path: Path) -> Iterator[OurNameServer]:
    """A name server that knows no other broker-a: the module's own broker has that name, and would be sent to."""
    server = OurNameServer(tmp_path / "namesrv")
    yield server
    assert server.stop() == 0, server.output()


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("ours", marks=pytest.mark.matrix(feature=OPEN, version=BROKER_VERSION, direction=STORE_OUT)),
        pytest.param("java", marks=pytest.mark.matrix(feature=OPEN, version=BROKER_VERSION, direction=STORE_BACK)),
    ],
)
def test_open_transactions_move_with_the_store(lonely_namesrv: OurNameServer, tmp_path: Path, first: str) -> None:
    """What one broker left open the other asks about; Java may lose its last op records at a stop, we lose none."""
    patient = QUICK | {"transactionCheckInterval": "3600000"}
    home = tmp_path / "broker"
    with running(first, home, lonely_namesrv, patient), client_at(lonely_namesrv, tmp_path / "first") as client:
        client.call("transact", topic="moved", group="movers", execute="uucr", check="....")
        # The commit travels oneway: the broker may stop only once it has taken effect.
        client.call("consume", group="looked_at", topic="moved")
        assert [message["keys"] for message in client.call("await", group="looked_at", count=1)] == ["tx-2"]
    with running("java" if first == "ours" else "ours", home, lonely_namesrv, QUICK, last=True):
        with client_at(lonely_namesrv, tmp_path / "second") as client:
            client.call("transact", topic="moved", group="movers", execute="c", check="crrr")
            client.call("consume", group="moved_to", topic="moved")
            # Three come for certain, however busy the machine is; Java's second commit is given some seconds more, and
            # ours, which must not come, some rounds.
            client.call("await", group="moved_to", count=3, seconds=60)
            got = client.call("await", group="moved_to", count=4, seconds=12 if first == "ours" else 4)
            checks = checked(client, "movers", "tx-1", 1)
    seen = Counter(message["keys"] for message in got)
    assert set(seen) == {"tx-0", "tx-2"} and seen["tx-2"] == 1
    # Java asks again before its op record is written, and takes the second answer for another commit.
    assert seen["tx-0"] == 2 or first == "ours"
    assert {message["keys"] for message in checks} >= {"tx-0", "tx-1"}


@contextmanager
def running(
    whose: str, home: Path, namesrv: OurNameServer, settings: dict[str, str], *, last: bool = False
) -> Iterator[None]:
    """A Bolide or Java broker on the store in `home`, until the end of the block."""
    make = OurBroker if whose == "ours" else JavaBroker
    broker = make(home, namesrv.address, settings)
    try:
        wait_registered(namesrv.address)
        yield
    finally:
        if last:
            broker.kill()  # nobody reads the store: a good end of Java's takes 15 s
        else:
            broker.stop()


@contextmanager
def client_at(namesrv: OurNameServer, home: Path) -> Iterator[JavaClient]:
    client = JavaClient(home, namesrv.address, BROKER_VERSION)
    try:
        yield client
    finally:
        client.close()
