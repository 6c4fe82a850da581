"""CHECK_TRANSACTION_STATE (39): the request to a producer for the outcome of a half message."""

from __future__ import annotations

from librt.strings import BytesWriter

from bolide.layout import property_names as names
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import HALF_TOPIC
from bolide.layout.record import Record, copy_of, encode_record
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.transactions import CheckTransactionStateRequestHeader


def check_request(record: Record, place: tuple[str, int], properties: MessageProperties, message_id: str) -> Command:
    """Return the request for the half message in `record`. `place`: its real topic and queue; `message_id`: its id."""
    unique = properties.get(names.UNIQ_KEY)
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=record.queue_offset,
        commit_log_offset=record.physical_offset,
        topic=HALF_TOPIC,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=message_id,
    )
    message = copy_of(record, place[0], place[1], properties)
    message.store_host = record.store_host
    message.encoded_properties = record.properties
    w = BytesWriter()
    encode_record(
        w,
        message,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        store_timestamp=record.store_timestamp,
    )
    return make_request(codes.CHECK_TRANSACTION_STATE, 0, header.to_ext(), w.getvalue(), oneway=True)
