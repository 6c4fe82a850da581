"""Sequences of requests from a seed: each works on topics, groups and clients of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Final

from proof.differential import bodies, values
from proof.differential.steps import BROKER, NAMESRV, PLACE, Step
from proof.reader.frames import BINARY, LANGUAGES

SENDS: Final = (10, 310, 320)
OUR_BROKER: Final = frozenset({
    10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46, 60, 61,
    200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306, 307, 308, 309, 310, 314, 315, 316,
    317, 320, 321, 323, 324, 325, 328, 329, 343, 345, 351, 352, 353, 361, 370, 400, 401, 402, 907,
})  # fmt: skip
OUR_NAMESRV: Final = frozenset({
    100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901,
    904,
})  # fmt: skip
OFTEN: Final = (
    *(310,) * 14, *(10,) * 3, *(320,) * 4, *(11,) * 10, *(361,) * 2, *(15,) * 5, *(14,) * 4, *(17,) * 5, *(34,) * 6,
    *(36,) * 4, *(37,) * 5, *(29,) * 2, *(30,) * 2, *(31,) * 2, *(12,) * 4, *(33,) * 2, *(41,) * 3, *(42,) * 2,
    *(200,) * 3, *(207,) * 2, *(215,) * 2, *(222,) * 3, *(314,) * 2, *(353,) * 2, *(35,) * 2, *(321,) * 2,
    *(370,) * 2, *(208,) * 2, *(202,) * 2, *(308,) * 2, *(18,) * 2, *(225,) * 2,
)  # fmt: skip
ROUTES: Final = (
    *(103,) * 8, *(105,) * 4, *(104,) * 3, *(100,) * 4, *(101,) * 3, *(102,) * 2, *(219,) * 2, *(205,) * 2,
    *(327,) * 2, *(216,) * 2, *(217,) * 2, *(322,) * 3, *(901,) * 2, *(904,) * 2, *(224,) * 2,
)  # fmt: skip
UNANSWERED_AT_BOTH: Final = (13, 22, 23, 47, 209, 210, 301, 302, 1015, 1016, 99999, -1, 0, 32767)
LENGTH: Final = 24


def sequence(seed: str, length: int = LENGTH) -> list[Step]:
    """The steps of a seed."""
    rng = Random(seed)
    maker = _Maker(rng)
    if rng.random() < 0.2:
        for _ in range(length):
            maker.add(NAMESRV, rng.choice(ROUTES) if rng.random() < 0.75 else rng.choice(sorted(OUR_NAMESRV)))
        return maker.steps
    if rng.random() < 0.85:
        maker.begin()
    for _ in range(length):
        chance = rng.random()
        if chance < 0.05:
            maker.add(NAMESRV, rng.choice(sorted(OUR_NAMESRV)))
        elif chance < 0.07:
            maker.add(rng.choice((BROKER, NAMESRV)), rng.choice(UNANSWERED_AT_BOTH))
        else:
            maker.add(BROKER, rng.choice(OFTEN) if rng.random() < 0.75 else rng.choice(sorted(OUR_BROKER)))
    return maker.steps


class _Maker:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        self.sent: list[int] = []

    def begin(self) -> None:
        """A topic, a group, a member and two messages: what most requests find something in."""
        rng = self.rng
        queues = rng.choice(("1", "2", "4"))
        create = {"topic": "${T0}", "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        create |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        self._append(Step(1, BROKER, 17, create))
        group = {"groupName": "${G0}", "retryQueueNums": 1, "retryMaxTimes": 16, "consumeEnable": True}
        self._append(Step(2, BROKER, 200, None, json.dumps(group)))
        if rng.random() < 0.6:
            beat: dict[str, object] = {
                "clientID": "${C0}",
                "producerDataSet": [{"groupName": "${G0}"}],
                "consumerDataSet": [],
            }
            subscription: dict[str, object] = {
                "topic": "${T0}",
                "subString": "*",
                "tagsSet": [],
                "codeSet": [],
                "subVersion": 1,
            }
            consumer: dict[str, object] = {
                "groupName": "${G0}",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
            }
            consumer |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}
            if rng.random() < 0.7:
                beat["consumerDataSet"] = [consumer]
            self._append(Step(3, BROKER, 34, None, json.dumps(beat)))
        for queue in range(rng.choice((1, 2, 3))):
            ext = {"a": "${G0}", "b": "${T0}", "c": "TBW102", "d": "4", "e": str(queue % int(queues)), "f": "0"}
            ext |= {"g": "${now}", "h": "0", "i": bodies.properties(rng), "j": "0", "k": "false", "m": "false"}
            self._append(Step(4, BROKER, 310, ext, f"first {queue}"))

    def add(self, server: str, code: int) -> None:
        """One random request."""
        rng = self.rng
        oddness = rng.choice((0.0, 0.0, 0.0, 0.12, 0.3))
        fields = values.header_of(code) if code in values.all_codes() else ()
        ext: dict[str, str] = {}
        for field in fields:
            value = values.odd(field, rng) if rng.random() < oddness else values.plausible(field, rng)
            if value is not None:
                ext[field.name] = value
        self._belongs_together(code, ext)
        if rng.random() < 0.06:
            ext[rng.choice(values.EXTRA)] = rng.choice(("x", "", "${T0}", "true", "1"))
        no_fields = not ext and rng.random() < 0.7
        body = bodies.body_of(code, rng, oddness * 2)
        step = Step(0, server, code, None if no_fields else ext, body, 1 if rng.random() < 0.25 else 0)
        if rng.random() < 0.1 and 0 <= code < 32768:
            step = replace(step, form=BINARY)
        if rng.random() < 0.08:
            step = replace(step, language=rng.choice(LANGUAGES), version=rng.choice((0, 37, 121, 399, 407, 513, 612)))
        if rng.random() < 0.02 and not oddness and code != 36:  # what one side refuses would not be seen
            step = replace(step, oneway=True)
        self._append(step)

    def _belongs_together(self, code: int, ext: dict[str, str]) -> None:
        rng = self.rng
        if code in (310, 320, 325):
            ext["m"] = "true" if code == 320 else rng.choice(("false", "false", "false", "false", "true"))
        if code in (10, 310, 324, 325):
            name = "properties" if code in (10, 324) else "i"
            ext[name] = bodies.properties(rng)
            if "TRAN_MSG" in ext[name]:
                ext["sysFlag" if code in (10, 324) else "f"] = "4"
        if code in (11, 361):
            ext["sysFlag"] = rng.choice(("4", "4", "4", "0", "5", "1", "20"))
            ext["suspendTimeoutMillis"] = "0"
            ext.pop("requestSource", None)  # a proxy's: Java does not answer a pull for broadcasting without a client
        if code in (103, 104, 322, 904):
            # An address is one broker's, and a broker is in one cluster: what Java keeps of others never leaves.
            broker, number = rng.choice((0, 0, 1)), rng.choice((0, 0, 1, 2))
            ext["brokerName"], ext["clusterName"] = f"${{B{broker}}}", "${B0}"
            ext["brokerAddr"], ext["brokerId"] = f"10.0.{broker}.{number}:1", str(number)
        if code in (215, 216, 217) and ext.get("topic", "") in values.SYSTEM_TOPICS:
            ext["topic"] = "${T0}"  # no later sequence would see it again
        if code == 321:
            ext["topic"] = rng.choice(values.OWN_TOPICS)
        if code == 222:
            ext["offset"] = rng.choice(("0", "1", "2", "-1", "5"))
        if code == 15 and rng.random() < 0.8:
            ext["topic"], ext["consumerGroup"] = rng.choice(values.OWN_TOPICS), rng.choice(values.OWN_GROUPS)
        if code in (37, 323) and self.sent and rng.random() < 0.7:
            mark = str(rng.choice(self.sent))
            ext["commitLogOffset"], ext["tranStateTableOffset"] = f"${{physical:{mark}}}", f"${{queueOffset:{mark}}}"
            ext["producerGroup"] = "${G0}"

    def _append(self, step: Step) -> None:
        number = len(self.steps) + 1
        mark = str(self.rng.choice(self.sent[-6:])) if self.sent else "0"

        def pointed(text: str) -> str:
            return PLACE.sub(lambda found: f"${{{found[1]}:{mark}}}" if found[2] else found[0], text)

        ext = None if step.ext is None else {name: pointed(value) for name, value in step.ext.items()}
        if step.code == 37 and step.ext and len(set(PLACE.findall(str(step.ext)))) > 1:
            ext = step.ext  # both offsets are those of one message
        if step.code in SENDS:
            self.sent.append(number)
        self.steps.append(replace(step, number=number, ext=ext, body=pointed(step.body)))
