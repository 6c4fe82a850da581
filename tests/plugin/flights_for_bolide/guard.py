"""A broker hook: refuses what is sent to a closed gate, and writes down what it sees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bolide.broker.hooks import BrokerHook, ConsumeCall, RequestCall, SendCall
from bolide.broker.refused import Refused
from bolide.remoting.codes import MESSAGE_ILLEGAL


class Guard(BrokerHook):
    def __init__(self, settings: Mapping[str, str]) -> None:
        self.log = Path(settings["storePathRootDir"]).with_name("guard.log")

    def note(self, line: str) -> None:
        with self.log.open("a") as log:
            log.write(line + "\n")

    def before_request(self, call: RequestCall) -> None:
        if call.fields.get("topic") == "Nonsense":
            raise ZeroDivisionError("a fault of the hook, which must cost nothing")

    def before_send(self, call: SendCall) -> None:
        if call.properties.get("gate") == "closed":
            raise Refused(MESSAGE_ILLEGAL, f"the gate of {call.topic} is closed")

    def after_send(self, call: SendCall) -> None:
        assert call.answer is not None
        self.note(f"send {call.topic} {call.answer.code} {call.answer.fields.get('queueOffset')}")

    def after_consume(self, call: ConsumeCall) -> None:
        assert call.answer is not None
        self.note(f"pull {call.topic} {call.answer.code} {[bytes(r.body).decode() for r in call.answer.records()]}")
