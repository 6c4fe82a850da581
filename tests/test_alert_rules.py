"""The alert rules of deploy/prometheus, evaluated by promtool: each fires on the series of its trouble and is silent on
those of ordinary operation."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from proof.kit.waiting import PATIENCE
from tests.optional_programs import needed
from tests.promtool import RULES, judged

MINUTES: Final = 60
B: Final = '{cluster="C",node_type="broker",node_id="b",job="bolide-broker",instance="b:5557"}'
C: Final = '{cluster="C",broker_set="b",node_type="controller",node_id="127.0.0.1:9878",group="bolide"}'
G: Final = (
    '{cluster="C",node_id="b",consumer_group="g",topic="%s",is_system="false",job="bolide-broker",instance="b:5557"}'
)
DLQ: Final = "rocketmq_send_to_dlq_messages_total" + G % "%DLQ%g"
LAG: Final = "rocketmq_consumer_lag_messages" + G % "T"
AGE: Final = "rocketmq_consumer_lag_latency_milliseconds" + G % "T"
BEHIND: Final = (
    'rocketmq_storage_flush_behind_bytes{cluster="C",node_type="broker",node_id="b",job="bolide-broker",'
    'instance="b:5557",storage_type="local",storage_medium="disk"}'
)
DAMAGED: Final = "bolide_damaged_records_total" + B
UP: Final = 'up{job="bolide-broker",instance="b:5557"}'
STARTED: Final = 'process_start_time_seconds{job="bolide-broker",instance="b:5557"}'
"""The first minute of a test is 0, so a broker that ran before has a negative time of start."""
FOUND: Final = (
    'bolide_scrub_findings{cluster="C",node_type="broker",node_id="b",kind="%s",job="bolide-broker",instance="b:5557"}'
)
SLAVE: Final = '{cluster="C",node_id="b",slave="10.0.0.2:41000"}'


def bucket(name: str, bound: str) -> str:
    return f'{name}_bucket{{cluster="C",node_id="b",le="{bound}"}}'


def slow(name: str, bound: str, beyond: str) -> dict[str, str]:
    """2 % of what is counted take longer than `bound`."""
    return {bucket(name, bound): "0+98x60", bucket(name, beyond): "0+100x60", bucket(name, "+Inf"): "0+100x60"}


def quick(name: str, bound: str, beyond: str) -> dict[str, str]:
    """One in 1,000 takes longer."""
    return {bucket(name, bound): "0+999x60", bucket(name, beyond): "0+1000x60", bucket(name, "+Inf"): "0+1000x60"}


Series = dict[str, str]
CASES: Final[dict[str, tuple[list[Series], list[Series]]]] = {
    "BolideDown": (
        [{UP: "0x60"}],
        [
            {UP: "1x58 0 1", 'up{job="other",instance="x:1"}': "0x60"},
        ],
    ),
    "BolideStoreFailed": ([{"bolide_store_failed" + B: "0x58 1x1"}], [{"bolide_store_failed" + B: "0x60"}]),
    "BolideTakesNoMessages": ([{"bolide_store_writable" + B: "1x57 0x3"}], [{"bolide_store_writable" + B: "1x60"}]),
    "BolideDiskFills": (
        [
            {"bolide_disk_free_bytes" + B: "100-1x60", "bolide_disk_size_bytes" + B: "110x60"},
            {"bolide_disk_free_bytes" + B: "10x60", "bolide_disk_size_bytes" + B: "110x60"},
        ],
        [{"bolide_disk_free_bytes" + B: "100x60", "bolide_disk_size_bytes" + B: "110x60"}],
    ),
    "BolideUnknownToNameServers": (
        [{"bolide_name_servers_reached" + B: "1x60", "bolide_name_servers" + B: "2x60"}],
        [{"bolide_name_servers_reached" + B: "2x58 1 2", "bolide_name_servers" + B: "2x60"}],
    ),
    "BolideSendsAreSlow": (
        [slow("bolide_send_seconds", "0.2", "1")],
        [quick("bolide_send_seconds", "0.2", "1"), slow("bolide_send_seconds", "0.1", "0.2")],
    ),
    "BolideSendsFail": (
        [{"bolide_puts_failed_total" + B: "0x55 1+1x4"}],
        [{"bolide_puts_failed_total" + B: "7x60"}],
    ),
    "BolideDiskHangs": (
        [
            {BEHIND: "0x50 4096x9", "bolide_sync_seconds_count" + B: "0+60x50 3000x9"},
            {BEHIND: "0x60", "bolide_sync_seconds_count" + B: "7x60", "bolide_disk_hangs" + B: "0x58 1x1"},
        ],
        [
            {BEHIND: "4096x60", "bolide_sync_seconds_count" + B: "0+60x60", "bolide_disk_hangs" + B: "0x60"},
            {BEHIND: "0x60", "bolide_sync_seconds_count" + B: "7x60"},  # nobody sends
            {"bolide_disk_hangs" + B: "0x50 1x5 0x4"},  # it answers again
        ],
    ),
    "BolideDamagedRecords": (
        [
            {DAMAGED: "0x55 1x4"},
            {DAMAGED: "_x55 1x4", UP: "0x55 1x4", STARTED: "_x55 3000x4"},  # a start that met the damage
        ],
        [
            {DAMAGED: "0x60"},
            {DAMAGED: "3x60"},  # met an hour ago, and not again
            {DAMAGED: "3x50 0x9"},  # the broker has restarted
            {DAMAGED: "_x55 3x4", UP: "_x55 1x4", STARTED: "_x55 -9000x4"},  # Prometheus has started
            {DAMAGED: "3x20 _x35 3x4", UP: "1x20 _x35 1x4", STARTED: "-9000x20 _x35 -9000x4"},  # it was down
            {DAMAGED: "3x20 _x35 3x4", UP: "1x20 0x35 1x4", STARTED: "-9000x20 _x35 -9000x4"},  # not reached
        ],
    ),
    "BolideScrubFindings": (
        [{FOUND % "record": "0x55 1x4", FOUND % "unit": "0x60"}],
        [{FOUND % "record": "0x60", FOUND % "unit": "1x50 0x9"}],  # repaired
    ),
    "BolideScrubIsLate": (
        [
            {"bolide_scrub_age_seconds" + B: "2600000+60x60", "bolide_scrub_enabled" + B: "1x60"},
            {"bolide_scrub_age_seconds" + B: "-1x60", "bolide_scrub_enabled" + B: "1x60", STARTED: "-2700000x60"},
        ],
        [
            {"bolide_scrub_age_seconds" + B: "600000+60x60", "bolide_scrub_enabled" + B: "1x60"},
            {"bolide_scrub_age_seconds" + B: "2600000+60x60", "bolide_scrub_enabled" + B: "0x60"},  # paused
            {"bolide_scrub_age_seconds" + B: "-1x60", "bolide_scrub_enabled" + B: "1x60", STARTED: "-9000x60"},  # new
        ],
    ),
    "BolideDamagedDelays": (
        [{"bolide_damaged_delays" + B: "0x55 1x4"}],
        [{"bolide_damaged_delays" + B: "0x50 1 0x8"}, {"bolide_damaged_delays" + B: "0x60"}],  # the next master had it
    ),
    "BolideDamagedTables": (
        [{"bolide_damaged_tables" + B: "_x58 1x1"}],
        [{"bolide_damaged_tables" + B: "1x50 0x9"}],
    ),
    "BolideTablesAreNotWritten": (
        [{"bolide_table_write_failures_total" + B: "0x50 1+1x9"}],
        [{"bolide_table_write_failures_total" + B: "0x55 1x4"}],
    ),
    "BolideLoopIsSlow": (
        [slow("bolide_turn_seconds", "0.1", "1")],
        [quick("bolide_turn_seconds", "0.1", "1")],
    ),
    "BolideGroupLags": ([{LAG: "100001x60"}], [{LAG: "0x50 200000x5 0x4"}]),
    "BolideGroupIsLate": ([{AGE: "0+60000x60"}], [{AGE: "500000x60"}]),
    "BolideDeadLetters": (
        [
            {DLQ: "0x55 12x4"},
            {DLQ: "_x55 12x4", UP: "1x60", STARTED: "-9000x60"},  # a group that came and failed between two scrapes
            {DLQ: "_x55 12x4", UP: "0x55 1x4", STARTED: "_x55 3000x4"},  # a group of a broker that has started
            {DLQ: "_x55 0 12x3"},
        ],
        [
            {DLQ: "0x60"},
            {DLQ: "12x60"},
            {DLQ: "12x50 0x9"},  # the broker has restarted
            {DLQ: "_x55 0x4", UP: "1x60", STARTED: "-9000x60"},  # a new group
            {DLQ: "_x55 12x4", UP: "_x55 1x4", STARTED: "_x55 -9000x4"},  # Prometheus has started
            {DLQ: "12x20 _x35 12x4", UP: "1x20 _x35 1x4", STARTED: "-9000x20 _x35 -9000x4"},  # it was down
            {DLQ: "12x20 _x35 12x4", UP: "1x20 0x35 1x4", STARTED: "-9000x20 _x35 -9000x4"},  # not reached
        ],
    ),
    "BolideSlaveLags": (
        [
            {"bolide_replication_lag_bytes" + SLAVE: "0x50 70000000x9"},
            {"bolide_replication_lag_seconds" + B: "0x50 61x9"},
        ],
        [{"bolide_replication_lag_bytes" + SLAVE: "1000x60", "bolide_replication_lag_seconds" + B: "-1x60"}],
    ),
    "BolideReplicaExpelled": (
        [{"bolide_replicas_expelled" + B: "0x40 1x19"}],
        [{"bolide_replicas_expelled" + B: "0x40 1x10 0x1 1x7"}, {"bolide_replicas_expelled" + B: "0x60"}],
    ),
    "BolideReplicaKeepsItsLog": (
        [{"bolide_replication_refused" + B: "0x50 1x9"}],
        [{"bolide_replication_refused" + B: "0x59 1"}],
    ),
    "BolideCertificateEnds": (
        [{'bolide_certificate_days_left{node_id="b",file="/tls/b.pem"}': "13.9x60"}],
        [{'bolide_certificate_days_left{node_id="b",file="/tls/b.pem"}': "14x60"}],
    ),
    "BolideConnectionsRunOut": (
        [{"bolide_connections" + B: "95x60", "bolide_connections_limit" + B: "100x60"}],
        [{"bolide_connections" + B: "80x60", "bolide_connections_limit" + B: "100x60"}],
    ),
    "BolideNoControllerLeads": (
        [{"bolide_controller_leads" + C: "0x60"}],
        [{"bolide_controller_leads" + C: "0x60", "bolide_controller_leads" + C.replace("9878", "9879"): "1x60"}],
    ),
    "BolideControllerKeepsNothing": (
        [{"bolide_controller_store_reached" + C: "0x60"}],
        [{"bolide_controller_store_reached" + C: "1x60"}],
    ),
    "BolideSetWithoutMaster": (
        [{"bolide_controller_has_master" + C: "1x57 0x3"}],
        [{"bolide_controller_has_master" + C: "1x60"}],
    ),
    "BolideReplicaOutOfSync": (
        [{"bolide_controller_in_sync_replicas" + C: "2x50 1x9", "bolide_controller_replicas" + C: "2x60"}],
        [{"bolide_controller_in_sync_replicas" + C: "2x57 1x1 2", "bolide_controller_replicas" + C: "2x60"}],
    ),
}
"""For each rule: the series of cases in which it fires within an hour, and of those in which it does not."""


@pytest.fixture(scope="module")
def promtool() -> str:
    return needed("promtool")


def checked(promtool: str, folder: Path, cases: list[tuple[str, Series, bool]]) -> str:
    """What promtool says of cases of (rule, series, whether it fires after an hour)."""
    tests: list[dict[str, Any]] = []
    for alert, series, fires in cases:
        query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
        samples = [{"labels": "{}", "value": 1}] if fires else []
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": samples}],
            }
        )
    return judged(promtool, folder, tests)


def test_every_rule_has_series_in_which_it_fires_and_in_which_it_does_not() -> None:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    assert sorted(CASES) == sorted(rule["alert"] for group in groups for rule in group["rules"])
    assert all(firing and silent for firing, silent in CASES.values())


def test_rules_fire_and_are_silent(promtool: str, tmp_path: Path) -> None:
    cases = [(alert, series, True) for alert, (firing, _) in CASES.items() for series in firing]
    cases += [(alert, series, False) for alert, (_, silent) in CASES.items() for series in silent]
    assert checked(promtool, tmp_path, cases) == ""


def test_settings_and_rules_have_only_fields_of_prometheus(promtool: str, tmp_path: Path) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        command = [promtool, "check", "config", str(tmp_path / "prometheus.yml")]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    for source in RULES.parent.glob("*.yml"):
        (tmp_path / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    done = check()
    assert done.returncode == 0 and f"{len(CASES)} rules found" in done.stdout, done.stdout + done.stderr
    for name, after in (("prometheus.yml", "global:\n"), ("alerts.yml", "  - name: bolide\n")):
        file = tmp_path / name
        text = file.read_text(encoding="utf-8")
        unknown = "  not_a_field: x\n" if name == "prometheus.yml" else "    not_a_field: x\n"
        file.write_text(text.replace(after, after + unknown), encoding="utf-8")
        assert "not_a_field" in check().stderr
        file.write_text(text, encoding="utf-8")


def test_a_case_that_does_not_hold_is_found(promtool: str, tmp_path: Path) -> None:
    (firing, *_), (silent, *_) = CASES["BolideStoreFailed"]
    assert checked(promtool, tmp_path, [("BolideStoreFailed", firing, False)])
    assert checked(promtool, tmp_path, [("BolideStoreFailed", silent, True)])
