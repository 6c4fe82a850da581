"""Taking back a message that waits for its delivery time: RECALL_MESSAGE (370), RocketMQ 5."""

from __future__ import annotations

from bolide.client.instance.instance import ClientInstance
from bolide.client.messages.errors import MessageRefused
from bolide.errors import ConnectionLost
from bolide.remoting import codes
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.recall import RecallMessageRequestHeader
from bolide.remoting.recall_handle import decode_recall_handle


async def recall(instance: ClientInstance, group: str, topic: str, handle: str, timeout: float | None) -> str:
    """Ask the broker that keeps a message to drop it; the message's id."""
    try:
        broker_name = decode_recall_handle(handle).broker_name
    except BodyError as error:
        raise MessageRefused(f"{error}: take recall_handle of the result of a delayed message", "handle") from None
    if instance.master_address(broker_name) is None:
        await instance.fetch_route(topic)
    address = instance.master_address(broker_name)
    if address is None:
        raise ConnectionLost(f"broker {broker_name} has no master now: the message cannot be taken back")
    header = RecallMessageRequestHeader(topic=topic, recall_handle=handle, producer_group=group)
    ext = {**header.to_ext(), "bname": broker_name}
    answer = await instance.call(address, codes.RECALL_MESSAGE, ext, timeout=timeout)
    return answer.ext().get("msgId", "")
