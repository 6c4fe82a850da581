"""The heartbeat of a client: registers its producer and consumer groups at every broker (HEART_BEAT).

A broker identifies a client by its TCP connection and removes it when the connection closes. So the client sends a
heartbeat on each new connection to a broker before any other request.
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
    """Sends heartbeats for the members of one instance, and stores each broker's version from the responses."""

    def __init__(
        self, client: RoutedClient, producers: Mapping[str, ProducerMember], consumers: Mapping[str, ConsumerMember]
    ) -> None:
        """Create the heartbeats of `producers` and `consumers`, live mappings of the members by group."""
        self._client = client
        self._producers = producers
        self._consumers = consumers
        self._versions: dict[str, int] = {}
        self.refusals: dict[str, ResponseError] = {}
        """Reason for the rejection of the last heartbeat, by broker address."""
        self._lock = asyncio.Lock()

    @property
    def versions(self) -> Mapping[str, int]:
        """Version in the last response, by broker address."""
        return self._versions

    def body(self) -> bytes:
        """Return the HeartbeatData of all members, or b"" without members."""
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
        """Send a heartbeat to every broker. Failures are logged; the next round retries them.

        Slaves get heartbeats only if there are consumers.
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
                await pool.get(address)  # which sends a heartbeat on the new connection
            else:
                await self._beat(connection)
        except BolideError as error:
            troubles.begin(key, f"heartbeat to {address} failed", error)
        else:
            troubles.over(key)

    async def greet(self, connection: ClientConnection) -> None:
        """Send the first heartbeat on a new connection to a broker. Does nothing for a name server."""
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
            log.warning("%s rejected the heartbeat (%d): %s", connection.address, answer.code, answer.remark)
