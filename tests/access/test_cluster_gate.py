"""Requests to a name server or controller with `clusterAuthenticationEnabled`, signed by users and by liars."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from bolide.access.cluster_options import GuardedDaemonOptions
from bolide.access.users import Credentials
from bolide.controller.options import ControllerOptions
from bolide.controller.server import Controller
from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.namesrv.server import NameServer
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.request_routes import Kind
from tests.controller.controllers import Engine, Seat

SETTINGS: dict[str, Any] = {
    "cluster_authentication_enabled": True,
    "inner_client_authentication_credentials": '{"accessKey":"cluster","secretKey":"secret-1"}',
    "init_authentication_user": '{"username":"admin","password":"secret-2"}',
}
MEMBER = Credentials("cluster", "secret-1")
ADMIN = Credentials("admin", "secret-2")
Daemon: TypeAlias = NameServer | Controller
LIARS = [None, Credentials("cluster", "secret-2"), Credentials("stranger", "secret-1"), Credentials("", "secret-1")]


def daemons(**more: bool) -> list[tuple[Daemon, dict[int, Kind]]]:
    servers: list[Daemon] = [
        NameServer(NamesrvOptions(**SETTINGS, **more)),
        Seat(Engine(), **SETTINGS, **more).controller,
    ]
    return [(server, {code: row.kind for code, row in server.table.rows.items()}) for server in servers]


def answer_code(daemon: Daemon, command: Command) -> int | None:
    """The code of the response, or None if a decision about the request is pending."""
    answer = daemon.handle(1, "10.0.0.9:5", command, 0)
    return answer.code if isinstance(answer, Command) else None


@pytest.mark.parametrize("liar", LIARS)
def test_changes_by_strangers_are_refused(liar: Credentials | None) -> None:
    for daemon, kinds in daemons():
        for code, kind in kinds.items():
            request = make_request(code, 1) if liar is None else liar.sign(make_request(code, 1))
            refused = answer_code(daemon, request) == codes.NO_PERMISSION
            assert refused == (kind is not Kind.READ), codes.request_name(code)


@pytest.mark.parametrize("member", [MEMBER, ADMIN])
def test_changes_by_known_users_are_accepted(member: Credentials) -> None:
    for daemon, kinds in daemons(cluster_authentication_reads=True):
        for code in kinds:
            answered = answer_code(daemon, member.sign(make_request(code, 1)))
            assert answered != codes.NO_PERMISSION, codes.request_name(code)


def test_reads_need_a_signature_if_the_setting_demands_it() -> None:
    for daemon, kinds in daemons(cluster_authentication_reads=True):
        for code in kinds:
            assert answer_code(daemon, make_request(code, 1)) == codes.NO_PERMISSION, codes.request_name(code)


def test_a_changed_field_breaks_the_signature() -> None:
    request = MEMBER.sign(make_request(codes.UNREGISTER_BROKER, 1, {"brokerName": "a", "brokerAddr": "10.0.0.1:1"}))
    request.ext()["brokerAddr"] = "10.0.0.2:1"
    for daemon, kinds in daemons():
        if request.code in kinds:
            assert answer_code(daemon, request) == codes.NO_PERMISSION


def test_refusal_says_what_to_do() -> None:
    (server, _), _ = daemons()
    answer = server.handle(1, "10.0.0.9:5", make_request(codes.REGISTER_BROKER, 1), 0)
    assert isinstance(answer, Command)
    assert answer.remark == (
        "username cannot be null. clusterAuthenticationEnabled: sign REGISTER_BROKER with "
        "innerClientAuthenticationCredentials at a broker, or with the access key and secret key of a tool; brokers of "
        "RocketMQ 4 cannot sign"
    )
    oneway = make_request(codes.REGISTER_BROKER, 1, oneway=True)
    assert server.handle(1, "10.0.0.9:5", oneway, 0) is None


def test_unknown_codes_are_answered_as_such() -> None:
    for daemon, _ in daemons(cluster_authentication_reads=True):
        assert answer_code(daemon, make_request(310, 1)) == codes.REQUEST_CODE_NOT_SUPPORTED


def test_without_the_switch_everything_is_accepted() -> None:
    options = NamesrvOptions(inner_client_authentication_credentials='{"accessKey":"a","secretKey":"b"}')
    assert answer_code(NameServer(options), make_request(codes.UNREGISTER_BROKER, 1)) != codes.NO_PERMISSION


def test_switch_needs_credentials() -> None:
    with pytest.raises(ConfigError, match="needs innerClientAuthenticationCredentials"):
        GuardedDaemonOptions(cluster_authentication_enabled=True)
    with pytest.raises(ConfigError, match="initAuthenticationUser cannot be read") as error:
        GuardedDaemonOptions(init_authentication_user="my secret")
    assert "my secret" not in str(error.value)


def test_settings_that_are_shown_hide_secrets() -> None:
    for daemon, _ in daemons():
        texts = daemon.settings.shown_texts()
        assert texts["innerClientAuthenticationCredentials"] == texts["initAuthenticationUser"] == "******"


@pytest.mark.parametrize(
    ("kind", "risk"),
    [
        (NamesrvOptions, "may register as any broker and change routes and settings"),
        (ControllerOptions, "may join a broker set, become its master and remove sets"),
    ],
)
def test_open_port_that_others_reach_is_a_warning(
    kind: type[NamesrvOptions] | type[ControllerOptions], risk: str
) -> None:
    (line,) = kind(bind_address="0.0.0.0").warnings
    assert line.startswith(f"clusterAuthenticationEnabled = false: anyone who reaches 0.0.0.0 {risk}")
    assert kind().warnings == kind(bind_address="0.0.0.0", **SETTINGS).warnings == ()
