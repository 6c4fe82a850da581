"""Well-formed frames that ask a name server for what it must refuse."""

from proof.kit.wire import GET_ROUTE
from tests.hostile.attack import request

SYSTEM_ERROR = 1
NOT_SUPPORTED = 3

REGISTER_BROKER = 103
UNREGISTER_BROKER = 104
PUT_KV_CONFIG = 100

_BROKER = {
    "brokerName": "broker-x",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "c",
    "haServerAddr": "127.0.0.1:2",
    "brokerId": "0",
    "compressed": "false",
    "bodyCrc32": "0",
}

NAMESRV_ATTACKS = [
    request("unknown code 9999", 9999, {}, NOT_SUPPORTED),
    request("a broker's code", 310, {}, NOT_SUPPORTED),
    request("route without a topic", GET_ROUTE, {}, SYSTEM_ERROR),
    request("registration without fields", REGISTER_BROKER, {}, SYSTEM_ERROR),
    request("registration, wrong CRC", REGISTER_BROKER, _BROKER | {"bodyCrc32": "7"}, SYSTEM_ERROR, b"{}"),
    request("registration, no zlib", REGISTER_BROKER, _BROKER | {"compressed": "true"}, SYSTEM_ERROR, b"x"),
    request("unregistration without fields", UNREGISTER_BROKER, {}, SYSTEM_ERROR),
    request("key and value without a namespace", PUT_KV_CONFIG, {"key": "k", "value": "v"}, SYSTEM_ERROR),
]
