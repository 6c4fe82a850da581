"""Requests as a Java client of 5.5.0 signs them, and the settings of a broker that checks them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, NamedTuple

_LOCAL = "org.apache.rocketmq.auth.{}.provider.Local{}MetadataProvider"
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": _LOCAL.format("authentication", "Authentication"),
    "authorizationMetadataProvider": _LOCAL.format("authorization", "Authorization"),
    "initAuthenticationUser": '{"username":"root","password":"rootpw12"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"innerpw12"}',
    "authorizationWhitelist": "31",
}


class Asked(NamedTuple):
    """A request: by whom ("" = unsigned), the code, its fields and its body."""

    who: str
    code: int
    ext: dict[str, str] | None = None
    body: Any = None
    secret: str = ""


def signed(asked: Asked) -> tuple[dict[str, str] | None, bytes]:
    """Fields and body as a Java client of 5.5.0 signs them."""
    body = (
        b"" if asked.body is None else asked.body if isinstance(asked.body, bytes) else json.dumps(asked.body).encode()
    )
    if not asked.who:
        return asked.ext, body
    ext = {**(asked.ext or {}), "AccessKey": asked.who}
    content = "".join(ext[key] for key in sorted(ext)).encode() + body
    secret = asked.secret or f"{asked.who}pw12"
    return {**ext, "Signature": base64.b64encode(hmac.digest(secret.encode(), content, hashlib.sha1)).decode()}, body


HEARTBEAT = {
    "clientID": "c",
    "producerDataSet": [{"groupName": "p"}],
    "consumerDataSet": [
        {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": "T1", "subString": "*", "subVersion": 1}],
            "unitMode": False,
        }
    ],
}
OFFSET = {"consumerGroup": "g", "topic": "T1", "queueId": "0"}
