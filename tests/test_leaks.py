"""A test that leaves something behind fails, by name. What a fixture that lives longer opened stays its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
CONFTEST = """
import tests.leaks

tests.leaks.PATIENCE = 0.1

def pytest_configure(config):
    config.pluginmanager.register(tests.leaks.Leaks())
"""
HEAD = """
import asyncio, logging, os, signal, socket, subprocess, sys, threading
import pytest

kept = []
go_on = threading.Event()

def a_task():
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(9), name="mine")
    loop.close()
    return task

"""
LEAVES = {
    "thread": ("threading.Thread(target=go_on.wait, name='mine').start()", "thread mine"),
    "daemon": ("threading.Thread(target=go_on.wait, name='mine', daemon=True).start()", "thread mine"),
    "child": ("kept.append(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE))", "-c input()"),
    "socket": ("kept.append(socket.create_server(('127.0.0.1', 0)))", "socket ('127.0.0.1', "),
    "file": ("kept.append(open(os.devnull))", "/dev/null"),
    "cycle": ("cycle = [open(os.devnull)]; cycle.append(cycle)", "unclosed file"),
    "loop": ("kept.append(asyncio.new_event_loop())", "eventpoll"),
    "task": ("kept.append(a_task())", "task mine"),
    "variable": ("os.environ['LEFT'] = 'x'", "the variable LEFT"),
    "folder": ("os.chdir('/')", "the working directory"),
    "handler": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "the handler of SIGUSR1"),
    "log": ("logging.getLogger().addHandler(logging.NullHandler())", "the logger root"),
}
KEEPS = """
@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    os.environ["LONGER"] = "x"
    signal.signal(signal.SIGINT, lambda number, frame: None)  # as a Spark session does
    store = tmp_path_factory.mktemp("store")
    asked, more = threading.Event(), []
    def serve():
        asked.wait()
        more.append(threading.Thread(target=go_on.wait))
        more[0].start()
        with server.accept()[0], open(store / "late", "w"):
            go_on.wait()
    thread = threading.Thread(target=serve)
    with socket.create_server(("127.0.0.1", 0)) as server, open(store / "lock", "w"):
        thread.start()
        yield asked, more, server.getsockname()
        go_on.set()
        thread.join()
        more[0].join()
    del os.environ["LONGER"]

@pytest.fixture
def shorter():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server

def test_first_use(longer, shorter):
    pass

def test_it_opens_more(longer):
    asked, more, address = longer
    asked.set()
    with socket.create_connection(address):
        pass
    while not more:
        pass

def test_a_loop_puts_pythons_handler_back():
    with asyncio.Runner() as runner:
        runner.get_loop().add_signal_handler(signal.SIGINT, print)
        runner.get_loop().remove_signal_handler(signal.SIGINT)

def test_what_is_about_to_end_is_waited_for():
    threading.Timer(0.05, lambda: None).start()

def test_last_use(longer, monkeypatch):
    monkeypatch.setenv("A", "B")

def test_what_fails_leaves_a_file():
    kept.append(open(os.devnull))
    assert False
"""


def test_tests_that_leave_something_fail(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    leaving = "".join(f"def test_{name}():\n    {body}\n\n" for name, (body, _) in LEAVES.items())
    pytester.makepyfile(HEAD + KEEPS + leaving)
    result = pytester.runpytest_subprocess("-W", "error")
    result.assert_outcomes(passed=5 + len(LEAVES), failed=1, errors=len(LEAVES))
    parts = re.split(r"_ ERROR at teardown of test_(\w+) _+\n", result.stdout.str())
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert found.keys() == LEAVES.keys()
    assert [name for name, (_, said) in LEAVES.items() if said not in found[name]] == []
