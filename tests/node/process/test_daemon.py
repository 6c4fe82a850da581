"""A daemon's exit status, and the one line it prints."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from bolide.errors import ConfigError
from bolide.node.process.daemon import run_daemon
from bolide.node.process.exit_codes import BAD_CONFIG, FAILED, STOPPED, STORE_FAILED
from bolide.store.disk.files import DiskFull
from bolide.store.errors import StoreDamaged


class Scripted:
    """A node that starts, fails or stops as told."""

    address = "127.0.0.1:1"

    def __init__(
        self,
        fails: BaseException | None = None,
        ends: BaseException | None = None,
        signals: int = 0,
        unclean: BaseException | None = None,
    ) -> None:
        self.stopped = asyncio.Event()
        self.failure: BaseException | None = None
        self.stops = 0
        self.reloads = 0
        self._fails, self._ends, self._signals, self._unclean = fails, ends, signals, unclean

    async def start(self) -> None:
        if self._fails is not None:
            raise self._fails
        if self._ends is not None:
            self.failure = self._ends
            self.stopped.set()
        if self._signals:
            os.kill(os.getpid(), self._signals)

    async def stop(self) -> None:
        self.stops += 1
        if self._unclean is not None:
            raise self._unclean

    async def reload(self) -> None:
        self.reloads += 1
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """A daemon leaves its signals and its settings of memory to the end of its process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    thresholds = gc.get_threshold()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def status_of(make: Callable[[], Scripted]) -> int:
    """The exit status of a daemon, whose loop is closed: it leaves that to the end of its process, too."""
    loops: list[asyncio.AbstractEventLoop] = []

    def noted() -> Scripted:
        loops.append(asyncio.get_running_loop())
        return make()

    try:
        return run_daemon(noted, "broker x")
    finally:
        loops[0].close()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ({"signals": signal.SIGTERM}, STOPPED),
        ({"signals": signal.SIGINT}, STOPPED),
        ({"ends": OSError("disk")}, STORE_FAILED),
    ],
)
def test_exit_status_reflects_the_cause(
    script: dict[str, object], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: list[Scripted] = []

    def make() -> Scripted:
        nodes.append(Scripted(**script))  # type: ignore[arg-type] # one dictionary for three kinds of argument
        return nodes[0]

    assert status_of(make) == status
    assert capsys.readouterr().out == "ready broker x 127.0.0.1:1\n"
    assert nodes[0].stops == 1


@pytest.mark.parametrize(
    ("ends", "status"), [(None, FAILED), (OSError(errno.EIO, "no sync"), STORE_FAILED)], ids=["signal", "failed store"]
)
def test_a_stop_that_cannot_write_is_one_sentence(
    ends: BaseException | None, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    node = Scripted(ends=ends, signals=0 if ends else signal.SIGTERM, unclean=DiskFull("cannot write /s/index/1"))
    assert status_of(lambda: node) == status
    (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert record.getMessage().startswith("broker x could not write everything at its stop")
    assert record.getMessage().endswith("cannot write /s/index/1") and record.exc_info is None


class Input:
    """Standard input as far as a daemon asks it."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize("terminal", [False, True])
def test_a_hangup_reloads_a_service_and_stops_what_lost_its_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Input(terminal))

    class HangsUp(Scripted):
        async def start(self) -> None:
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, hang_up)

    def hang_up() -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    node = HangsUp()
    assert status_of(lambda: node) == STOPPED
    assert (node.stops, node.reloads) == (1, 0 if terminal else 1)


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    """`error`, raised from `cause`."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("bad"), BAD_CONFIG),
        (StoreDamaged("torn"), BAD_CONFIG),
        (OSError("taken"), FAILED),
        (caused_by(ConfigError("unread"), OSError(errno.EMFILE, "too many open files")), FAILED),
        (caused_by(ConfigError("unread"), OSError(errno.EACCES, "not allowed")), BAD_CONFIG),
    ],
)
def test_a_daemon_that_cannot_start_says_nothing_on_standard_output(
    error: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(lambda: Scripted(fails=error)) == status
    assert capsys.readouterr().out == ""
