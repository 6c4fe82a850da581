"""Java name servers, brokers, clients and `mqadmin` as processes: free ports, a folder of their own, quiet logs.

Every process gets `user.home` and `ROCKETMQ_HOME` inside its folder, so that nothing is read from or written to the
home folder of the user who runs the tests.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from proof.interop.class_archives import class_sharing
from proof.interop.java_artefacts import (
    BROKER_VERSION,
    classpath,
    compiled,
    driver_classpath,
    jars,
    source_folder,
    tool,
)
from proof.interop.jvm_flags import UNVERIFIED
from proof.kit.our_processes import conf_file
from proof.kit.ports import reserve_port
from proof.kit.processes import AnsweringProcess, ChildProcess
from proof.kit.small import NEVER_BUSY, SMALL_LOG
from proof.kit.waiting import PROCESS_PATIENCE, wait_until
from proof.kit.wire import GET_ROUTE, SUCCESS, Wire

ALL_TOPICS, UPDATE_BROKER_CONFIG, QUERY_DATA_VERSION = 21, 25, 322

# The broker and fastjson reach into these packages; without the flags they fail on Java 17.
_OPEN = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
# Servers offer TLS as shipped, and make an RSA key for it: a second of a processor. No test connects to them by TLS.
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dtls.server.mode=disabled", *UNVERIFIED.split())

# What keeps a broker as shipped busy while nothing happens: each flush copies the whole timer wheel, once a second, an
# eighth of a core; and after its first transaction 5.5.0's batching of op messages never sleeps again unless each is
# written at once. A clean stop flushes the wheel too. Its TransactionMetricsFlushService spins through its first
# interval, ten seconds of a whole core with every start, and sleeps through the others.
_IDLE = {
    "timerFlushIntervalMs": "60000",
    "transactionOpMsgMaxSize": "1",
    "transactionOpBatchInterval": "86400000",
    "transactionMetricFlushInterval": "200",
}
# A slave of 4.9 reports how much it has when it has written nothing for this long; until then its master sends nothing.
_QUICK_REPORT = {"haSendHeartbeatInterval": "500"}
# How often RebalanceService looks for the queues of a new group or retry topic, in 4.9 and for queues that it does not
# have yet in 5.x. Its defaults of 20 s and 1 s are most of a test's time.
_QUICK_REBALANCE = ("-Drocketmq.client.rebalance.waitInterval=500", "-Drocketmq.client.rebalance.minInterval=100")
_BINARY_HEADER = "-Drocketmq.serialize.type=ROCKETMQ"
_LOGBACK = (
    '<configuration><appender name="F" class="{package}ch.qos.logback.core.FileAppender"><file>{log}</file><encoder>'
    '<pattern>%d %p - %m%n</pattern></encoder></appender><root level="WARN"><appender-ref ref="F"/></root>'
    "</configuration>"
)
_SHADED = "org.apache.rocketmq.logging."
Messages = list[dict[str, Any]]
_ANSWER_SECONDS = 240.0


def _java(home: Path, classpath: str, flags: Iterable[str]) -> list[str]:
    logback = f"-Drmq.logback.configurationFile={home}/conf/logback.xml"
    return [tool("java"), *_OPEN, *flags, f"-Duser.home={home}", logback, "-cp", classpath]


def _quick_start(version: str, megabytes: int = 256) -> list[str]:
    return [f"-Xmx{megabytes}m", *_QUICK_START, *class_sharing(version)]


def _prepare(home: Path) -> None:
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for part in ("broker", "namesrv", "tools"):  # where 4.9 looks for them
        plain = _LOGBACK.format(package="", log=home / f"{part}.log")
        (conf / f"logback_{part}.xml").write_text(plain, encoding="utf-8")
    shaded = _LOGBACK.format(package=_SHADED, log=home / "java.log")
    (conf / "logback.xml").write_text(shaded, encoding="utf-8")


class JavaNameServer(ChildProcess):
    """A Java name server on a free port; `settings` are added to its file."""

    def __init__(self, home: Path, version: str = BROKER_VERSION, settings: Mapping[str, str] | None = None) -> None:
        _prepare(home)
        self.port = reserve_port()
        self.address = f"127.0.0.1:{self.port}"
        conf = conf_file(home / "namesrv.conf", {"listenPort": str(self.port), **(settings or {})})
        command = _java(home, classpath(version), _quick_start(version))
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        super().__init__([*command, main, "-c", conf], home / "namesrv.out", {"ROCKETMQ_HOME": str(home)})
        self.wait_ready("boot success")


class JavaBroker(ChildProcess):
    """A Java broker `broker-a` of `DefaultCluster` on free ports; its store is `home/store`.

    `namesrv` is the address of its name server; with an empty one it registers nowhere.
    `settings` are added to broker.conf. `flags` are the JVM's. Without any, flags and settings suit tests: it starts
    quickly, is idle when nothing happens, refuses no send because it is slow, and has log files as small as ours there;
    with some, as in the bench, the settings are those it ships with.
    """

    def __init__(
        self,
        home: Path,
        namesrv: str,
        settings: Mapping[str, str] | None = None,
        *,
        version: str = BROKER_VERSION,
        flags: Iterable[str] | None = None,
        port: int | None = None,
        ready_seconds: float = PROCESS_PATIENCE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        _prepare(home)
        self.home = home
        self.store = home / "store"
        self.port = port if port is not None else reserve_port(1, -2)
        self.address = f"127.0.0.1:{self.port}"
        values = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(self.port),
            "haListenPort": str(self.port + 1),
            **({"namesrvAddr": namesrv} if namesrv else {}),
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            "fileReservedTime": "100000",
            **({**_IDLE, **_QUICK_REPORT, **NEVER_BUSY, **SMALL_LOG} if flags is None else {}),
            **(settings or {}),
        }
        conf = conf_file(home / "broker.conf", values)
        if flags is None:
            flags = ("-XX:MaxDirectMemorySize=1g", *_quick_start(version, 512))
        command = _java(home, classpath(version), flags)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        variables = {"ROCKETMQ_HOME": str(home), **(environment or {})}
        super().__init__([*command, main, "-c", conf], home / "broker.out", variables)
        self.wait_ready("boot success", ready_seconds)
        self._register(version, namesrv, values)

    def _register(self, version: str, namesrv: str, values: Mapping[str, str]) -> None:
        """Wait until the name servers have registered this broker.

        One of 5.5.0 connects to its name servers a tenth of a second after its start. Its first registration is
        earlier, so it reaches no name server, and the second is due ten seconds later. A change of its permission
        also registers it. In a set that elects its master, when to register is the broker's own decision.
        """
        decides = values.get("enableControllerMode") == "true" or values.get("totalReplicas", "1") != "1"
        if version == BROKER_VERSION and namesrv and not decides:
            permission = f"brokerPermission={values.get('brokerPermission', '6')}\n".encode()
            wait_until(lambda: self._registers(namesrv, permission, values), f"{self.address} registers with {namesrv}")
        if namesrv:
            wait_registered(namesrv)

    def _registers(self, namesrv: str, permission: bytes, values: Mapping[str, str]) -> bool:
        with Wire(self.port) as wire:
            if wire.ask(UPDATE_BROKER_CONFIG, body=permission).code != SUCCESS:
                return True  # with access control the second registration is the first
            version = json.dumps(json.loads(wire.ask(ALL_TOPICS).body)["dataVersion"]).encode()
        fields = {"clusterName": values["brokerClusterName"], "brokerName": values["brokerName"]}
        fields |= {"brokerAddr": self.address, "brokerId": values["brokerId"]}
        for address in namesrv.split(";"):
            with Wire(int(address.rpartition(":")[2])) as wire:
                if wire.ask(QUERY_DATA_VERSION, fields, version).ext.get("changed") != "false":
                    return False
        return True


class JavaController(ChildProcess):
    """A Java controller 5.5.0 on a free port, alone in its group."""

    def __init__(self, home: Path) -> None:
        _prepare(home)
        self.port = reserve_port()
        self.address = f"127.0.0.1:{self.port}"
        values = {
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(home / "store"),
            "mappedFileSize": str(1 << 20),
        }
        conf = conf_file(home / "controller.conf", values)
        command = _java(home, classpath(BROKER_VERSION), _quick_start(BROKER_VERSION))
        main = "org.apache.rocketmq.controller.ControllerStartup"
        super().__init__([*command, main, "-c", conf], home / "controller.out", {"ROCKETMQ_HOME": str(home)})
        self.wait_ready("boot success")


class JavaProgram(ChildProcess):
    """One of RocketMQ's benchmark programs (`org.apache.rocketmq.example.benchmark`), with its own command line.

    Its JVM has sent a message before, to a topic of its own, and has the binary header that the program asks for.
    """

    def __init__(self, home: Path, namesrv: str, name: str, *words: str) -> None:
        _prepare(home)
        sources = [source_folder() / f"{source}.java" for source in ("InteropClient", "Warmed")]
        warmed = compiled("warmed", sources, f"{jars(BROKER_VERSION)}/*")
        path = f"{classpath(BROKER_VERSION)}:{classpath(f'{BROKER_VERSION}-example')}:{warmed}"
        command = _java(home, path, (*_quick_start(BROKER_VERSION), *_QUICK_REBALANCE, _BINARY_HEADER))
        program = f"org.apache.rocketmq.example.benchmark.{name}"
        main = ("Warmed", namesrv, program, "-n", namesrv)
        super().__init__([*command, *main, *words], home / f"{name}.out", {"ROCKETMQ_HOME": str(home)})


def journal_client(home: Path, *words: str) -> list[str]:
    """Return the command of a `JournalClient` with these words; its logs are in `home`."""
    _prepare(home)
    sources = [source_folder() / "JournalClient.java"]
    path = f"{classpath(BROKER_VERSION)}:{compiled('journal-client', sources, f'{jars(BROKER_VERSION)}/*')}"
    return [*_java(home, path, (*_quick_start(BROKER_VERSION), *_QUICK_REBALANCE)), "JournalClient", *words]


def wait_registered(namesrv: str) -> None:
    """Wait until a name server knows a route to TBW102, that is, any broker that creates topics."""

    def known() -> bool:
        with Wire(int(namesrv.rpartition(":")[2])) as wire:
            return wire.ask(GET_ROUTE, {"topic": "TBW102"}).code == SUCCESS

    wait_until(known, f"a broker registers with {namesrv}")


class DriverError(Exception):
    """The Java client answered a command with an exception, given as text."""


class _Driver(AnsweringProcess):
    """A Java program that reads commands and writes a JSON object after each."""

    def __init__(self, home: Path, version: str, flags: Iterable[str], words: Iterable[str]) -> None:
        _prepare(home)
        command = [*_java(home, driver_classpath(version), (*_quick_start(version), *flags)), *words]
        # consumerStatus makes a folder in the working directory
        super().__init__(command, home / "driver.err", {"ROCKETMQ_HOME": str(home)}, cwd=home)
        self.answer("its start", _ANSWER_SECONDS)

    def result(self, line: str) -> Any:
        """Run one command and return its result. Raises DriverError if the command failed."""
        answer = self.ask(line, _ANSWER_SECONDS)
        if not answer["ok"]:
            raise DriverError(f"{line}: {answer['error']}")
        return answer.get("result")

    def close(self) -> None:
        """End the program."""
        self.kill()


class JavaClient(_Driver):
    """A running `InteropClient`: Java's own client, steered line by line. One JVM serves many operations."""

    def __init__(self, home: Path, namesrv: str, version: str, *, binary_header: bool = False) -> None:
        header = (_BINARY_HEADER,) if binary_header else ()
        super().__init__(home, version, (*_QUICK_REBALANCE, *header), ("InteropClient", namesrv))

    def call(self, verb: str, **arguments: object) -> Any:
        """Run one command and return its result; DriverError if it failed, AssertionError if no answer came."""
        words = [verb, *(f"{key}={value}" for key, value in arguments.items())]
        assert not any(" " in word or "\n" in word for word in words), words
        return self.result(" ".join(words))

    def await_until(self, group: str, enough: Callable[[Messages], bool], what: str) -> Messages:
        """What a group has got once that is `enough`: where some may come twice, how many there are says nothing."""
        got: Messages = []

        def all_there() -> bool:
            got[:] = self.call("await", group=group, count=len(got) + 1, seconds=1)
            return enough(got)

        wait_until(all_there, what)
        return got


class Java:
    """One Java client and the names it uses, so that no two parametrisations meet."""

    def __init__(self, client: JavaClient, name: str, port: int) -> None:
        self.client = client
        self.name = name
        self.port = port

    def topic(self, operation: str) -> str:
        """A topic (or group) of this client's own."""
        return f"{operation}_{self.name}"


class MqAdmin(_Driver):
    """RocketMQ's `mqadmin` (`MQAdminStartup`), many commands in one JVM."""

    def __init__(self, home: Path, namesrv: str, version: str = BROKER_VERSION, *, binary_header: bool = False) -> None:
        header = (_BINARY_HEADER,) if binary_header else ()
        super().__init__(home, version, (f"-Drocketmq.namesrv.addr={namesrv}", *header), ("MqAdmin",))

    def run(self, *words: str) -> str:
        """Run one command and return what it printed; AssertionError if that is an error."""
        printed = self.told(" ".join(words))
        assert "Exception" not in printed, f"mqadmin {' '.join(words)}:\n{printed}"
        return printed

    def told(self, line: str) -> str:
        """Run one command and return what it printed, errors too; "" lists the verbs."""
        return str(self.result(line))


def endless_mqadmin(home: Path, version: str, *words: str) -> ChildProcess:
    """A command of `mqadmin` that runs until it is ended, in a JVM of its own."""
    _prepare(home)
    command = _java(home, classpath(version), _quick_start(version))
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return ChildProcess([*command, main, *words], home / "mqadmin.out", {"ROCKETMQ_HOME": str(home)})
