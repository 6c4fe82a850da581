"""What to do about a refusal: Java's remarks say what a broker does not do, and not which setting makes it do so.

The remarks are those of RocketMQ 5.5.0, which Bolide's broker gives as well.
"""

from __future__ import annotations

from typing import Final

ADVICE: Final = (
    ("does not support consumer to filter message by", "set enablePropertyFilter=true on the broker"),
    ("recall failed, operation is forbidden", "set recallMessageEnable=true on the broker"),
    (
        "timer message illegal",
        "timerMaxDelaySec on the broker says how many seconds ahead a message may be delivered (259200, three days)",
    ),
    (
        "No topic route info in name server",
        "create the topic, or set autoCreateTopicEnable=true on a broker, and look whether brokers are registered",
    ),
    ("not exist, apply first please", "create the topic, or set autoCreateTopicEnable=true on the broker"),
    ("ubscription group", "create the group, or set autoCreateSubscriptionGroup=true on the broker"),
    ("for lite pull consumer is forbidden", "set litePullMessageEnable=true on the broker"),
    ("sending transaction message is forbidden", "set rejectTransactionMessage=false on the broker"),
    ("] sending message is forbidden", "the topic, or brokerPermission of the broker, does not allow writing"),
    ("] pulling message is forbidden", "the topic, or brokerPermission of the broker, does not allow reading"),
    ("can not consume by broadcast way", "set consumeBroadcastEnable of the group"),
)
"""Pieces of remarks, each with the setting that would help."""


def advice(remark: str) -> str:
    """The sentence that helps with a refusal, or ""."""
    for piece, what_to_do in ADVICE:
        if piece in remark:
            return what_to_do
    return ""


def first_line(remark: str) -> str:
    """A remark without the link to Java's questions and answers that follows in its second line."""
    return remark.partition("\n")[0].strip()
