"""Advice for rejections: Java's remarks name the missing feature, but not the setting that enables it.

RocketMQ 5.5.0 sends these remarks; Bolide's broker uses the same.
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
"""Substrings of remarks, each with the advice for it."""


def advice(remark: str) -> str:
    """Return the advice for a rejection, or ""."""
    for piece, what_to_do in ADVICE:
        if piece in remark:
            return what_to_do
    return ""


def first_line(remark: str) -> str:
    """Return a remark without its second line, a link to RocketMQ's FAQ."""
    return remark.partition("\n")[0].strip()
