"""The one heartbeat of a client: tells every broker which producer and consumer groups live here (HEART_BEAT).

A broker knows a client by its TCP connection and forgets it when that closes, so a new connection to a broker begins
with a heartbeat before anyone may use it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from bolide.client.instance.members import ConsumerMember, ProducerMember
from bolide.client.instance.protocol_json import json_text
from bolide.client.instance.routed_client import RoutedClient
from bolide.client.messages.errors import ResponseError, response_error
from bolide.errors import BolideError, RequestTimeout
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.transport.client import ClientConnection

log = logging.getLogger("bolide.client")


class Heartbeats:
    """Sends heartbeats for the members of one instance, and remembers each broker's version from the answers."""

    def __init__(
        self, client: RoutedClient, producers: Mapping[str, ProducerMember], consumers: Mapping[str, ConsumerMember]
    ) -> None:
        """`producers` and `consumers` are the members of now, by group."""
        self._client = client
        self._producers = producers
        self._consumers = consumers
        self._versions: dict[str, int] = {}
        self.refusals: dict[str, ResponseError] = {}
        """By broker address: why the last heartbeat was refused."""
        self._lock = asyncio.Lock()

    @property
    def versions(self) -> Mapping[str, int]:
        """The version each broker address answered with."""
        return self._versions

    def body(self) -> bytes:
        """HeartbeatData of all members; b"" when there are none."""
        if not self._producers and not self._consumers:
            return b""
        return json_text(
            {
                "clientID": self._client.client_id,
                "consumerDataSet": [consumer.heartbeat() for consumer in self._consumers.values()],
                "heartbeatFingerprint": 0,
                "producerDataSet": [{"groupName": group} for group in self._producers],
                "withoutSub": False,
            }
        )

    async def send(self) -> None:
        """Tell every broker who is here; one that cannot be reached is logged and tried again at the next round.

        Producers alone are of no interest to slaves.
        """
        async with self._lock:
            if not self.body():
                return
            masters_only = not self._consumers
            addresses = [
                address
                for known in list(self._client.brokers.values())
                for broker_id, address in known.items()
                if broker_id == MASTER_ID or not masters_only
            ]
            for gone in [address for address in self.refusals if address not in addresses]:
                del self.refusals[gone]
            await asyncio.gather(*(self._send_to(address) for address in addresses))

    async def _send_to(self, address: str) -> None:
        pool, troubles = self._client.pool, self._client.troubles
        key = ("heartbeat", address)
        try:
            connection = pool.live(address)
            if connection is None:
                await pool.get(address)  # which greets it with a heartbeat
            else:
                await self._beat(connection)
        except BolideError as error:
            troubles.begin(key, f"heartbeat to {address} failed", error)
        else:
            troubles.over(key)

    async def greet(self, connection: ClientConnection) -> None:
        """The first words on a new connection; nothing to a name server."""
        if connection.address not in self._client.broker_addresses():
            return
        try:
            await self._beat(connection)
        except RequestTimeout as error:
            log.warning("first heartbeat failed: %s", error)

    async def _beat(self, connection: ClientConnection) -> None:
        body = self.body()
        if not body:
            return
        timeout = self._client.options.call_timeout
        answer = await self._client.call_on(connection, codes.HEART_BEAT, None, body, timeout)
        if answer.code == codes.SUCCESS:
            self._versions[connection.address] = answer.version
            self.refusals.pop(connection.address, None)
        else:
            self.refusals[connection.address] = response_error(
                answer.code, answer.remark, "a heartbeat", connection.address
            )
            log.warning("%s refused the heartbeat (%d): %s", connection.address, answer.code, answer.remark)
