"""Completion: the scripts, and what the program answers a shell."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools.generate_commands import within
from typer.core import TyperArgument, TyperOption

from bolide.cli.contexts.completions import LIMIT_VARIABLE
from bolide.cli.main import command
from bolide.testing.broker import Broker
from proof.kit.waiting import PATIENCE
from tests.cli.running import invoke

BREAKS = "\" \\t\\n'><=;|&(:"
NAMED = {
    *("topic", "topics", "trace_topic", "group", "groups", "as_group", "broker", "broker_set", "sets", "cluster"),
    *("context", "daemon", "settings"),
}
"""Parameters that are names of something that exists."""
ALSO = {
    ("offset clone", "source"),
    ("offset clone", "target"),
    *((f"context {verb}", "name") for verb in ("use", "show", "delete")),
}
NEW = {
    ("produce", "group"),  # a producer group: brokers list only connected ones
    ("topic producers", "group"),
    ("pipeline feed", "settings"),  # options of a sink
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = invoke("completion", shell)
    assert done.exit_code == 0 and f"_BOLIDE_COMPLETE{'=complete_bash' if shell == 'bash' else ''}" in done.output
    assert invoke("completion", "tcsh").exit_code == 2


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program, without the environment of this process."""
    found = tmp_path / "bolide"
    found.write_text(f"#!{sys.executable}\nfrom bolide.cli.main import main\n\nmain()\n")
    found.chmod(0o700)
    return found


def in_bash(program: Path, line: str, **variables: str) -> list[str]:
    """Return the completions of bash at the end of a line."""
    script = f"""
        {invoke("completion", "bash").output}
        COMP_WORDBREAKS=$'{BREAKS.replace("'", chr(92) + "'")}'
        COMP_LINE="$1"; COMP_POINT=${{#COMP_LINE}}; _bolide_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    home = str(program.parent)
    environ = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, LIMIT_VARIABLE: str(PATIENCE), **variables}
    done = subprocess.run(["bash", "-c", script, "bash", line], capture_output=True, text=True, check=True, env=environ)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_a_command_and_an_option(program: Path) -> None:
    assert in_bash(program, "bolide cluster ap") == ["apply"]
    assert in_bash(program, "bolide topic list --sy") == ["--system"]


def test_bash_completes_names_of_the_cluster_that_the_line_names(program: Path, bolide_broker: Broker) -> None:
    bolide_broker.create_topic("Orders")
    bolide_broker.create_topic("Trials")
    named = f"--namesrv {bolide_broker.namesrv_addr}"
    assert in_bash(program, f"bolide topic show {named} Or") == ["Orders"]
    assert in_bash(program, f"bolide topic show {named} ") == ["Orders", "Trials"]
    # Bash splits words at a colon and at an equals sign.
    assert in_bash(program, f"bolide topic show --namesrv={bolide_broker.namesrv_addr} Tr") == ["Trials"]
    variable = {"BOLIDE_NAMESRV_ADDR": bolide_broker.namesrv_addr}
    assert in_bash(program, "bolide cluster info bro", **variable) == ["broker-a"]
    assert in_bash(program, "bolide topic delete Orders --cluster=Def", **variable) == ["DefaultCluster"]
    assert in_bash(program, "bolide pipeline stats Orders,Tr", **variable) == ["Orders,Trials"]


def test_bash_completes_keys_of_settings_without_a_server(program: Path) -> None:
    assert in_bash(program, "bolide broker --set brokerClu") == ["brokerClusterName="]
    assert in_bash(program, "bolide namesrv config set enableAll") == ["enableAllTopicList="]
    assert "namesrv" in in_bash(program, "bolide config show ")


def test_zsh_and_fish_get_names_too(program: Path, bolide_broker: Broker) -> None:
    bolide_broker.create_topic("Orders")
    line = f"bolide topic show --namesrv {bolide_broker.namesrv_addr} Or"
    for shell, said in (("zsh", '"Orders"'), ("fish", "Orders")):
        variables = {"_BOLIDE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
        environ = {**os.environ, **variables, "_TYPER_COMPLETE_FISH_ACTION": "get-args", LIMIT_VARIABLE: str(PATIENCE)}
        done = subprocess.run([program], capture_output=True, text=True, check=True, env=environ)
        assert said in done.stdout and done.stderr == ""


@pytest.mark.parametrize("server", ["127.0.0.1:1", "nonsense", "no-such-host.invalid:9876"])
def test_unreachable_server_completes_nothing_silently(program: Path, server: str) -> None:
    assert in_bash(program, f"bolide topic show --namesrv {server} Or") == []


def test_silent_server_completes_nothing_in_time(program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = f"bolide topic show --namesrv 127.0.0.1:{silent.getsockname()[1]} Or"
        begin = time.monotonic()
        assert in_bash(program, line, **{LIMIT_VARIABLE: ""}) == []
        assert time.monotonic() - begin < 15  # the timeout of any other command for one request


def test_damaged_contexts_complete_nothing_silently(program: Path) -> None:
    folder = program.parent / "config" / "bolide"
    folder.mkdir(parents=True)
    (folder / "contexts.json").write_text("{")
    (folder / "contexts.json").chmod(0o600)
    variable = {"XDG_CONFIG_HOME": str(folder.parent), "BOLIDE_NAMESRV_ADDR": "", "NAMESRV_ADDR": ""}
    assert in_bash(program, "bolide topic show Or", **variable) == []
    assert in_bash(program, "bolide --context te", **variable) == []


def test_every_name_is_completed() -> None:
    bare = []
    for path, verb in [*within(command()), ((), command())]:
        for each in verb.params:
            assert isinstance(each, TyperArgument | TyperOption)
            at = (" ".join(path), each.name)
            if (each.name in NAMED or at in ALSO) and at not in NEW and each._custom_shell_complete is None:
                bare.append(at)
    assert bare == []
