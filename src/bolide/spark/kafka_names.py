"""Names of options and columns of Spark's Kafka source and sink, in lower case, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PAIRS: Final = {
    "kafka.bootstrap.servers": "namesrv",
    "bootstrap.servers": "namesrv",
    "kafka.group.id": "group",
    "groupid": "group",
    "consumergroup": "group",
    "kafka.max.poll.records": "pullBatchSize",
    "kafka.request.timeout.ms": "requestTimeoutMs",
    "kafkaconsumer.polltimeoutms": "requestTimeoutMs",
    "fetchoffset.numretries": "retryTimeoutMs",
    "fetchoffset.retryintervalms": "retryTimeoutMs",
    "kafka.metadata.max.age.ms": "discoveryIntervalMs",
    "kafka.security.protocol": "tlsEnable",
    "kafka.ssl.truststore.location": "tlsClientTrustCertPath",
    "kafka.ssl.keystore.location": "tlsClientCertPath and tlsClientKeyPath",
    "kafka.ssl.key.password": "tlsClientKeyPassword",
    "kafka.sasl.jaas.config": "accessKey and secretKey",
    "kafka.delivery.timeout.ms": "deliveryTimeoutMs",
    "kafka.batch.size": "batchBytes",
}
KAFKA_OPTIONS: Final[Mapping[str, str]] = {
    **{kafka: f"set {ours}, which takes its place here" for kafka, ours in _PAIRS.items()},
    "includeheaders": "remove it, the column properties always contains them",
    "startingoffsetsbytimestampstrategy": "remove it, a queue without a later message begins at its end",
}
KAFKA_COLUMNS: Final[Mapping[str, str]] = {
    "value": "body",
    "key": "keys",
    "headers": "properties",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
}
"""Columns of Spark's Kafka source, and the corresponding columns here."""
