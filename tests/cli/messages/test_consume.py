"""`bolide consume`: an invalid topic, and reading without a group."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bolide.cli.messages.consume import message_fields
from bolide.client import ReceivedMessage
from bolide.remoting.compression import COMPRESSED_FLAG
from bolide.remoting.errors import CompressionError
from bolide.testing.broker import Broker
from tests.cli.running import invoke
from tests.layout.records import record_of


def test_an_invalid_topic_is_refused_before_anything_is_asked() -> None:
    command = [sys.executable, "-m", "bolide.cli", "consume", "a b", "--namesrv", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bolide: topic 'a b' is invalid, only letters, digits and %|-_ are allowed\n"


def test_reading_without_a_group_creates_no_group() -> None:
    with Broker(auto_create_subscription_group=False) as broker:
        namesrv = ("-n", broker.namesrv_addr)
        assert invoke("produce", "T", "one", *namesrv).exit_code == 0
        done = invoke("consume", "T", "--count", 1, *namesrv)
        assert (done.exit_code, done.stdout) == (0, "one\n"), done.output
        assert json.loads(invoke("group", "list", "--json", *namesrv).stdout) == []


def test_a_body_that_cannot_be_inflated_is_an_error_or_a_field() -> None:
    damaged = ReceivedMessage(record_of("T", b"x", sys_flag=COMPRESSED_FLAG), "b")
    with pytest.raises(CompressionError):
        message_fields(damaged)
    fields = message_fields(damaged, unreadable=True)
    assert (fields["topic"], fields["body"]) == ("T", "") and fields["body_error"]
