"""A Spark cluster of processes whose workers have no Python of their own: everything runs from one archive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.client import Message
from bolide.spark.session.pack import CannotPack, Packed, pack
from bolide.testing.broker import Broker
from proof.kit.children import start
from proof.kit.ports import reserve_port
from proof.kit.waiting import wait_until
from tests.golden.stores import golden_store
from tests.spark.produce import send
from tests.spark.spark_home import spark_home

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark-processes"),
]

ROOT = Path(__file__).parents[3]
MESSAGES = 3_000


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return pack(str(tmp_path_factory.mktemp("pack") / "bolide-spark.tar.gz"))


class Daemons:
    """Master and workers, started as Spark's own scripts start them, with next to nothing in their environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        home = spark_home(folder / "home")  # what executors import can only come from the archive
        self._env = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ} | {
            "SPARK_HOME": str(home),
            "PATH": f"{Path(os.environ.get('JAVA_HOME', '/usr')) / 'bin'}:/usr/bin:/bin",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, main: str, *arguments: str) -> None:
        log = (self._folder / f"{name}.log").open("wb")
        with log:
            self.processes[name] = start(
                [f"{self._env['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{main}", *arguments],
                stdout=log, stderr=subprocess.STDOUT, env=self._env, cwd=self._folder, start_new_session=True,
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text("utf-8", "replace")

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(240)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    port = reserve_port()
    url = f"spark://127.0.0.1:{port}"
    folder = tmp_path / "cluster"
    folder.mkdir()
    daemons = Daemons(folder)
    try:
        daemons.start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_until(lambda: "I have been elected leader" in daemons.log("master"), "the master")
        # Two names: Spark starts no second attempt at a task on the host of the first.
        for name, host in (("one", "127.0.0.1"), ("two", "localhost")):
            where = ("--host", host, "--port", "0", "--webui-port", "0", "--work-dir", str(folder / name))
            daemons.start(name, "worker.Worker", *where, "--cores", "1", "--memory", "1g", url)
        for name in ("one", "two"):
            wait_until(lambda name=name: "Successfully registered with master" in daemons.log(name), f"worker {name}")
        yield url
    finally:
        daemons.stop()


def test_every_job_runs_on_a_cluster_that_loses_an_executor(
    cluster: str, packed: Packed, bolide_broker: Broker, tmp_path: Path
) -> None:
    bolide_broker.create_topic("T")
    bolide_broker.create_topic("Copy")
    bolide_broker.create_topic("Once")
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n, tags="A") for n in range(MESSAGES)])
    driver = tmp_path / "driver"
    with tarfile.open(packed.path) as archive:
        archive.extractall(driver / "bolide", filter="tar")
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": "./bolide/bin/python3", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment["SPARK_HOME"] = str(spark_home(tmp_path / "home"))
    with (tmp_path / "driver.log").open("wb") as log:
        program = start(
            [sys.executable, str(ROOT / "tests/spark/cluster_program.py"), cluster, bolide_broker.namesrv_addr,
             "5.5.0-clean", str(work), packed.path],
            env=environment, cwd=driver, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip

    def told() -> str:
        return (tmp_path / "driver.log").read_text("utf-8", "replace")

    def marks() -> list[str]:
        return [path.name for path in (work / "marks").glob("*")]

    def daemons() -> int:
        return len({name.rsplit("-", 1)[1] for name in marks()})

    try:
        wait_until(lambda: daemons() >= 2 or program.poll() is not None, "a task on each executor", 600)
        assert program.poll() is None, told()
        daemon = int(marks()[0].rsplit("-", 1)[1])  # the parent of a task's Python; its own parent is the executor
        os.kill(parent_of(daemon), signal.SIGKILL)
        # The tasks wait for the file, so the survivor cannot finish them all before the new executor has one.
        wait_until(lambda: daemons() >= 3 or program.poll() is not None, "an executor in the dead one's place", 600)
        assert program.poll() is None, told()
        (work / "go").touch()
        answer, _ = program.communicate(timeout=900)
    finally:
        program.kill()
    assert program.returncode == 0, told()
    said = json.loads(answer.splitlines()[-1])
    for python, numpy, bolide in said["python"]:
        assert all(str(tmp_path / "cluster") in place for place in (python, numpy, bolide)), said["python"]
    assert len(said["python"]) == 2
    assert said["bodies"] == list(range(MESSAGES))
    assert (said["archived"], said["read back"]) == (MESSAGES, MESSAGES)
    assert said["copied"] == MESSAGES
    assert said["attempts"] == ["attempt0", "attempt1"], "a task and its speculative twin sent the same rows"
    assert said["once"] == list(range(400))
    records = len(golden_store("5.5.0-clean").log())
    assert (said["stored"], said["dispatched"]) == (records, records)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[1])


def test_a_pack_runs_alone_and_says_what_is_missing(packed: Packed, tmp_path: Path) -> None:
    with tarfile.open(packed.path) as archive:
        archive.extractall(tmp_path / "moved", filter="tar")
    code = "import bolide.spark.data_source, pyarrow, numpy, sys\n"
    code += "print(sys.prefix, pyarrow.__file__, bolide.__path__[0])"
    python = tmp_path / "moved" / "bin" / "python3"
    alone = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run([python, "-c", code], env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(place.startswith(str(tmp_path / "moved")) for place in done.stdout.split())
    out = tmp_path / "none.tar.gz"
    with pytest.raises(CannotPack, match="no-such-package is not installed"):
        pack(str(out), ["no-such-package"])
    assert list(tmp_path.glob("none*")) == []
