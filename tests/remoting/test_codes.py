"""Code numbers and names against the Java classes."""

from __future__ import annotations

from bolide.remoting import codes
from tests.remoting.vectors import requests, responses

OLD_MEANINGS = {
    "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
    "DELETE_ACL_CONFIG_FAILED",
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
}


def test_every_request_code_has_its_name() -> None:
    assert {entry["code"]: entry["name"] for entry in requests()} == codes.REQUEST_NAMES


def test_every_response_code_has_its_name() -> None:
    expected = {entry["code"]: entry["name"] for entry in responses() if entry["name"] not in OLD_MEANINGS}
    assert expected == codes.RESPONSE_NAMES


def test_names_of_unknown_codes_say_the_number() -> None:
    assert codes.request_name(310) == "SEND_MESSAGE_V2"
    assert codes.request_name(77_777) == "REQUEST_77777"
    assert codes.response_name(26) == "SUBSCRIPTION_GROUP_NOT_EXIST"
    assert codes.response_name(-5) == "RESPONSE_-5"


def test_languages_go_both_ways_and_unknown_ones_are_other() -> None:
    assert [codes.language_code(name.lower()) for name in codes.LANGUAGES] == list(range(14))
    assert codes.language_code("KLINGON") == codes.OTHER
    assert codes.language_name(200) == "OTHER"
    assert codes.language_name(-1) == "OTHER"
