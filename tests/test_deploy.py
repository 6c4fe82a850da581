"""What is in deploy/: dashboard, alert rules and units name what a broker, name server and controller really serve."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions
from bolide.node.broker import BrokerNode
from bolide.node.namesrv import NamesrvNode
from bolide.node.process.exit_codes import BAD_CONFIG, STORE_FAILED
from bolide.remoting import codes
from bolide.remoting.command import make_request
from bolide.transport.client import ClientConnection
from bolide.version import VERSION
from proof.kit.processes import ChildProcess
from proof.kit.waiting import PATIENCE
from tests.node.brokers import options, pull_request, send_request
from tests.node.controller.running import brokers, controller, paired
from tests.node.metrics.scraping import Samples, scraped

DEPLOY = Path(__file__).parent.parent / "deploy"
OF_TLS = {"bolide_certificate_days_left": {"file"}}
OF_A_SLAVE = {
    "bolide_replication_lag_seconds": set[str](),
    "bolide_replication_lag_bytes": {"slave"},
    "bolide_replication_refused": set[str](),
}
"""What only a broker with a master or a slave serves, with its own labels."""
OF_PROMETHEUS = {"up": {"job", "instance"}}
NAME = re.compile(r"\b(?:rocketmq|bolide|process|up)(?:_\w+)?(?=[{\[ )/<>=]|$)")
SELECTED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Each name that a broker, a name server and a controller with a set serve after some traffic, with its labels."""

    async def scenario(folder: Path) -> dict[str, set[str]]:
        prom: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
        server = NamesrvNode(NamesrvOptions(listen_port=0, kv_config_path=str(folder / "kv.json"), **prom))
        await server.start()
        node = BrokerNode(options(folder / "store", namesrv_addr=server.address, **prom))
        await node.start()
        client = await ClientConnection.connect(node.address, PATIENCE)
        for request in (send_request(), send_request("%DLQ%g"), pull_request()):
            await client.request(request, PATIENCE)
        committed = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"}
        await client.request(make_request(codes.UPDATE_CONSUMER_OFFSET, 0, committed), PATIENCE)
        found: dict[str, set[str]] = {}
        async with controller(folder, **prom) as decides, brokers(decides, "127.0.0.1:1", "127.0.0.1:2") as both:
            await paired(*both)
            for port in (node.monitoring, server.monitoring, decides.monitoring):
                assert port is not None
                samples: Samples = await scraped(port.number)
                for name, rows in samples.items():
                    for labels, _ in rows:
                        found.setdefault(name, set()).update(labels)
        client.close()
        await client.wait_closed()
        await node.stop()
        await server.stop()
        return found

    return asyncio.run(scenario(tmp_path_factory.mktemp("served")))


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DEPLOY / "grafana" / "bolide.json").read_text(encoding="utf-8"))
    return loaded


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def scaler() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / "consumer-keda.yaml").read_text(encoding="utf-8"))
    return loaded


def queries() -> Iterator[tuple[str, str, str]]:
    """Where each query is, its text, and what is shown of its result."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]
    for rule in rules():
        yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())
    for trigger in scaler()["spec"]["triggers"]:
        yield "KEDA", trigger["metadata"]["query"], ""


def test_queries_use_names_and_labels_that_are_served(served: dict[str, set[str]]) -> None:
    known = {**served, **OF_A_SLAVE, **OF_TLS, **OF_PROMETHEUS}
    of_all = {"cluster", "node_type", "node_id", "job", "instance"}
    wrong: list[str] = []
    for place, query, shown in queries():
        names = NAME.findall(query)
        labels = set(SELECTED.findall(query)) | set(SHOWN.findall(shown))
        for group in GROUPED.findall(query):
            labels |= {label.strip() for label in group.split(",")}
        own = not all(name.startswith("process_") for name in names)  # the client library gives these no label
        has = (of_all if own else {"job", "instance"}).union(*(known.get(name, set()) for name in names))
        wrong += [f"{place}: {name} is not served" for name in names if name not in known]
        wrong += [f"{place}: no {label} in {names}" for label in sorted(labels - has - {"value"})]
        if not names or query.count("(") != query.count(")") or query.count("{") != query.count("}"):
            wrong.append(f"{place}: {query}")
    assert wrong == []


def test_counters_are_asked_for_their_rate_and_gauges_are_not(served: dict[str, set[str]]) -> None:
    over_time = re.compile(r"\b(rate|increase|predict_linear)\((\w+)")
    for place, query, _ in queries():
        for name in NAME.findall(query):
            counts = name.endswith(("_total", "_bucket", "_count", "_sum"))
            used = {what for what, of in over_time.findall(query) if of == name}
            assert bool(used - {"predict_linear"}) == counts, (place, name)


def test_the_dashboard_is_one_that_grafana_loads() -> None:
    page = dashboard()
    assert page["title"] == "Bolide" and page["uid"] == "bolide" and "id" not in page
    panels = page["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
    assert {each["name"] for each in page["templating"]["list"]} == {"datasource", "cluster", "broker"}


def test_each_alert_says_what_is_and_what_to_do() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) >= 10
    for rule in found:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_the_example_of_prometheus_names_its_rules_and_the_default_ports() -> None:
    loaded = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    assert all((DEPLOY / "prometheus" / name).is_file() for name in loaded["rule_files"])
    ports = [job["static_configs"][0]["targets"][0].rpartition(":")[2] for job in loaded["scrape_configs"]]
    assert ports == [
        str(options(Path("/")).process.metrics_prom_exporter_port),
        str(NamesrvOptions().metrics_prom_exporter_port),
        str(ControllerOptions().metrics_prom_exporter_port),
    ]


def test_the_page_lists_all_that_is_served(served: dict[str, set[str]]) -> None:
    page = (DEPLOY.parent / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in served if name.startswith(("rocketmq_", "bolide_"))}
    assert sorted(name for name in names | set(OF_A_SLAVE) if f"`{name}`" not in page) == []


@pytest.mark.parametrize("name", ["bolide-broker", "bolide-controller", "bolide-namesrv"])
def test_units_are_what_systemd_takes(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / f"{name}.service").read_text(encoding="utf-8")
    stop = f"RestartPreventExitStatus={BAD_CONFIG}" + (f" {STORE_FAILED}" if name == "bolide-broker" else "")
    assert f"{stop}\n" in text
    (command,) = re.findall("^ExecStart=/opt/bolide/bin/bolide (.*)$", text, re.MULTILINE)
    options_given = {word for word in command.split() if word.startswith("-")}
    told = subprocess.run(
        [sys.executable, "-m", "bolide", command.split()[0], "--help"], capture_output=True, text=True, check=True
    )
    assert all(option in told.stdout for option in options_given)
    # ProtectSystem=strict: all else is read-only, and a daemon replaces the file of its settings.
    told_paths = dict(re.findall("^(StateDirectory|LogsDirectory|ReadWritePaths)=(.*)$", text, re.MULTILINE))
    assert Path(command.split()[command.split().index("-c") + 1]).parent == Path(told_paths["ReadWritePaths"])
    writable = [told_paths["ReadWritePaths"], f"/var/lib/{told_paths['StateDirectory']}"]
    writable.append(f"/var/log/{told_paths['LogsDirectory']}")
    pages = [text, (DEPLOY.parent / "docs" / "monitor.md").read_text(encoding="utf-8")]
    named = re.findall(r"(?<=[ :=])/(?:var|etc)/[\w./-]+", "\n".join(pages))
    named = [path for path in named if "bolide/" in path or f"{name}/" in path]
    assert named and all(path.startswith(tuple(f"{each}/" for each in writable)) for path in named), named
    if shutil.which("systemd-analyze") is None:
        return
    unit = tmp_path / f"{name}.service"
    unit.write_text(text.replace("/opt/bolide/bin/bolide", "/bin/true"), encoding="utf-8")
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if name in line]) == (0, [])


def manifests(name: str) -> dict[str, dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


@pytest.mark.parametrize("path", sorted((DEPLOY / "kubernetes").glob("*.yaml")), ids=lambda path: path.stem)
def test_manifests_name_this_version_and_give_probes_three_seconds(path: Path) -> None:
    for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        pod = each.get("spec", {}).get("template", {}).get("spec", {"containers": []})
        for container in pod["containers"]:
            assert container["image"] == f"bolide:{VERSION}"
            probes = {kind: probe for kind, probe in container.items() if kind.endswith("Probe")}
            assert {"livenessProbe", "readinessProbe"} <= probes.keys()
            assert {probe["timeoutSeconds"] for probe in probes.values()} == {3}


def test_the_console_of_a_manifest_starts_with_its_arguments() -> None:
    found = manifests("console")
    pod = found["Deployment"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert found["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    told = subprocess.run(
        [sys.executable, "-m", "bolide", "console", "--help"], capture_output=True, text=True, check=True
    )
    assert all(word in told.stdout for word in container["args"] if word.startswith("--"))
    assert all(each["name"] in told.stdout for each in container["env"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/login"
    (port,) = found["Service"]["spec"]["ports"]
    assert container["args"][-1].endswith(f":{port['port']}") and container["ports"][0]["containerPort"] == port["port"]


@pytest.mark.parametrize(("name", "store"), [("namesrv", False), ("controller", False), ("broker", True)])
def test_a_manifest_runs_a_daemon_that_serves_what_it_is_asked_for(name: str, store: bool) -> None:
    found = manifests(name)
    one = found["StatefulSet"]["spec"]
    pod = one["template"]["spec"]
    (container,) = pod["containers"]
    labels = one["template"]["metadata"]["labels"]
    assert one["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    assert one["serviceName"] == found["Service"]["metadata"]["name"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {port["name"]: port["port"] for port in found["Service"]["spec"]["ports"]}
    variables = {each["name"]: each.get("value", "10.0.0.9") for each in container["env"]}
    variables |= found["ConfigMap"]["data"] if "ConfigMap" in found else {}
    daemon, _, listen = container["args"]
    shown = subprocess.run(
        [sys.executable, "-m", "bolide", "config", "show", daemon, "--json"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    given = {row["key"]: row["value"] for row in json.loads(shown.stdout) if row["origin"].startswith("variable")}
    assert len(given) == len(variables) and "warning" not in shown.stderr.lower(), shown.stderr
    metrics = {"broker": 5557, "namesrv": 5558, "controller": 5559}[name]
    assert ports == {name: int(listen.rpartition(":")[2]), "metrics": metrics}
    probes = {container[kind]["httpGet"]["path"] for kind in container if kind.endswith("Probe")}
    assert probes == {"/healthz", "/readyz"}
    (mount,) = container["volumeMounts"]
    assert mount["name"] == one["volumeClaimTemplates"][0]["metadata"]["name"]
    assert not store or given["storePathRootDir"].startswith(mount["mountPath"] + "/")
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["securityContext"]["runAsNonRoot"]
    unit = (DEPLOY / "systemd" / f"bolide-{name}.service").read_text(encoding="utf-8")
    assert f"TimeoutStopSec={pod['terminationGracePeriodSeconds']}\n" in unit


def test_keda_scales_by_the_age_of_messages() -> None:
    spec = scaler()["spec"]
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "Value")
    assert 0 < spec["minReplicaCount"] < spec["maxReplicaCount"]
    assert float(trigger["metadata"]["threshold"]) > 10, "the figure is refreshed every ten seconds"


def test_the_image_is_the_one_that_the_manifests_run() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
    (volume,) = re.findall(r"^VOLUME (\S+)$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    ignored = (DEPLOY.parent / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored, "only what is listed is copied"
    assert all((DEPLOY.parent / line[1:]).exists() for line in ignored if line.startswith("!"))
    assert f"bolide:{VERSION}" in text and "BOLIDE_BUILD=yes" in text
    extras = re.findall(r"whl\)\[([a-z,]+)\]", text)
    assert extras == ["server"]
    for name in ("namesrv", "controller", "broker"):
        pod = manifests(name)["StatefulSet"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == int(user)
        assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == volume
    words = json.loads(command)
    told = subprocess.run(
        [sys.executable, "-m", "bolide", words[0], "--help"], capture_output=True, text=True, check=True
    )
    assert all(word in told.stdout for word in words if word.startswith("--"))


_ALONE = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,ro,bind /
shift
exec "$@"
"""
"""Everything but one folder is read-only, and what is run is the first process: as in a container."""


@pytest.mark.slow
def test_a_daemon_is_a_good_first_process_on_a_read_only_system(tmp_path: Path) -> None:
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _ALONE, "sh"]
    volume = tmp_path / "volume"
    volume.mkdir()
    if subprocess.run([*alone, str(volume), "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make namespaces")
    command = [*alone, str(volume), sys.executable, "-m", "bolide", "standalone", "--store", str(volume / "store")]
    command += ["--namesrv-port", "0", "--broker-port", "0", "--set", "mappedFileSizeCommitLog=1048576"]
    log = tmp_path / "standalone.out"
    server = ChildProcess(command, log, {"HOME": str(volume), "PYTHONDONTWRITEBYTECODE": "1"})
    try:
        server.wait_ready("ready namesrv=")
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text(encoding="ascii").split()
        (first,) = children  # unshare has one child, which is process 1 of its own world
        os.kill(int(first), signal.SIGTERM)
        assert server.stop() == 0, server.output()
    finally:
        server.kill()
    assert "Read-only" not in server.output() and "Traceback" not in server.output()
