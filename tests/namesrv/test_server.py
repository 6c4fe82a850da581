"""The name server as a whole: which codes it serves, what it answers to others, oneway."""

from __future__ import annotations

from bolide.namesrv.options import NamesrvOptions
from bolide.remoting import codes
from bolide.remoting.command import make_request, make_response
from bolide.remoting.headers.namesrv import GetRouteInfoRequestHeader
from tests.namesrv.peer import FakeBroker, World
from tests.remoting.vectors import requests


def test_every_code_a_name_server_of_4_9_serves_is_served() -> None:
    wanted = {entry["code"] for entry in requests() if "namesrv" in entry["served_by"]}
    peer = World().peer()
    for code in wanted:
        response = peer.send(make_request(code, 1))
        assert response is not None
        assert response.code != codes.REQUEST_CODE_NOT_SUPPORTED, codes.request_name(code)


def test_other_codes_are_not_supported() -> None:
    response = World().peer().ask(310, expect=codes.REQUEST_CODE_NOT_SUPPORTED)
    assert response.remark == " request type 310 not supported"


def test_a_missing_field_is_an_answer() -> None:
    response = World().peer().ask(codes.GET_ROUTEINFO_BY_TOPIC, expect=codes.SYSTEM_ERROR)
    assert "HeaderError from 1.2.3.4:5: the field topic of GET_ROUTEINFO_BY_TOPIC" in (response.remark or "")


def test_oneway_requests_and_responses_get_no_answer() -> None:
    peer = World().peer()
    assert peer.send(make_request(codes.GET_BROKER_CLUSTER_INFO, 1, oneway=True)) is None
    assert peer.send(make_request(310, 1, oneway=True)) is None
    assert peer.send(make_response(make_request(1, 1), 0)) is None


def test_answers_come_in_the_form_of_the_question() -> None:
    world = World()
    FakeBroker(world).topic("T").register()
    ext = GetRouteInfoRequestHeader(topic="T").to_ext()
    response = world.peer().send(make_request(105, 1, ext, serialize_type=codes.BINARY_TYPE))
    assert response is not None
    assert response.serialize_type == codes.BINARY_TYPE
    assert response.body


def test_an_idle_server_waits_for_nothing() -> None:
    world = World()
    assert world.server.due(world.now) is None
    FakeBroker(world).topic("T").register()
    assert world.server.due(world.now) == world.now + NamesrvOptions().scan_not_active_broker_interval
