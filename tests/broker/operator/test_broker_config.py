"""Settings that an operator shows and changes."""

from __future__ import annotations

from pathlib import Path

from bolide.broker.operator.broker_config import BrokerConfigService
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import NOW, Parts, reply_of


def test_a_changed_permission_is_news_for_the_name_servers(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    service = BrokerConfigService(parts.options, parts.topics, dict, lambda changes: None, NOW)
    parts.effects.take()
    told = parts.topics.data_version.counter
    for body in (b"fileReservedTime=48\n", b"brokerPermission=4\n"):
        request = make_request(codes.UPDATE_BROKER_CONFIG, 1, body=body)
        assert reply_of(service.handlers()[request.code](parts.channel, request, NOW)).code == 0
        changed = b"Permission" in body
        assert parts.effects.take().registrations == ({""} if changed else set())
        assert parts.topics.data_version.counter == told + changed
    parts.close()


def test_settings_and_what_may_not_be_changed(tmp_path: Path) -> None:
    parts = Parts(tmp_path, config_black_list="rejectTransactionMessage;x")
    asked: list[dict[str, str]] = []
    service = BrokerConfigService(parts.options, parts.topics, lambda: {"brokerName": "b"}, asked.append, NOW)
    handlers = service.handlers()
    shown = reply_of(handlers[codes.GET_BROKER_CONFIG](parts.channel, make_request(codes.GET_BROKER_CONFIG, 1), NOW))
    assert b"brokerName=b" in shown.body
    for key in (b"brokerConfigPath", b"rejectTransactionMessage"):
        request = make_request(codes.UPDATE_BROKER_CONFIG, 1, body=key + b"=true\n")
        assert reply_of(handlers[request.code](parts.channel, request, NOW)).code == codes.NO_PERMISSION
    assert asked == []
    parts.close()
