"""Java name servers, brokers, clients and `mqadmin` as processes: free ports, a folder of their own, quiet logs.

Every process gets `user.home` and `ROCKETMQ_HOME` inside its folder, so that nothing is read from or written to the
home folder of the user who runs the tests.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from proof.interop.java_artefacts import BROKER_VERSION, compiled, driver_classpath, jars, source_folder, tool
from proof.interop.jvm_flags import UNVERIFIED
from proof.kit.our_processes import conf_file
from proof.kit.ports import reserve_port
from proof.kit.processes import AnsweringProcess, ChildProcess
from proof.kit.small import NEVER_BUSY, SMALL_LOG
from proof.kit.waiting import PROCESS_PATIENCE, wait_until
from proof.kit.wire import GET_ROUTE, SUCCESS, Wire

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
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *UNVERIFIED.split())

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
# RebalanceService looks for the queues of a new retry topic this often; its default of 20 s is most of a test's time.
_QUICK_REBALANCE = "-Drocketmq.client.rebalance.waitInterval=1000"
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
        command = _java(home, f"{jars(version)}/*", ("-Xmx256m", *_QUICK_START))
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
            **({**_IDLE, **NEVER_BUSY, **SMALL_LOG} if flags is None else {}),
            **(settings or {}),
        }
        conf = conf_file(home / "broker.conf", values)
        if flags is None:
            flags = ("-Xmx512m", "-XX:MaxDirectMemorySize=1g", *_QUICK_START)
        command = _java(home, f"{jars(version)}/*", flags)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        super().__init__([*command, main, "-c", conf], home / "broker.out", {"ROCKETMQ_HOME": str(home)})
        self.wait_ready("boot success", ready_seconds)
        if not namesrv:
            return
        # It may say so and reach the name server only at its next try, ten seconds later.
        wait_registered(namesrv)


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
        command = _java(home, f"{jars(BROKER_VERSION)}/*", ("-Xmx256m", *_QUICK_START))
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
        classpath = f"{warmed}:{jars(BROKER_VERSION)}/*:{jars(f'{BROKER_VERSION}-example')}/*"
        command = _java(home, classpath, ("-Xmx256m", *_QUICK_START, _QUICK_REBALANCE, _BINARY_HEADER))
        program = f"org.apache.rocketmq.example.benchmark.{name}"
        main = ("Warmed", namesrv, program, "-n", namesrv)
        super().__init__([*command, *main, *words], home / f"{name}.out", {"ROCKETMQ_HOME": str(home)})


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
        command = [*_java(home, driver_classpath(version), ("-Xmx256m", *_QUICK_START, *flags)), *words]
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
        super().__init__(home, version, (_QUICK_REBALANCE, *header), ("InteropClient", namesrv))

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
    command = _java(home, f"{jars(version)}/*", ("-Xmx256m", *_QUICK_START))
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return ChildProcess([*command, main, *words], home / "mqadmin.out", {"ROCKETMQ_HOME": str(home)})
