"""Encodes the requests that send messages."""

from __future__ import annotations

from typing import Final

from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.envelope import JSON_ENCODER
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.elements import NO_TIME
from bolide.spark.sink.frame_template import FrameTemplate
from bolide.spark.source.connection import ClusterAccess
from bolide.spark.source.patient_requests import signed

BATCH_PROPERTIES: Final = "WAIT\x01true\x02"


class Frames:
    """Encodes the requests of a task."""

    def __init__(self, options: ClusterAccess, half: bool) -> None:
        """With `half`, the messages are half messages."""
        self._options = options
        self._half = half

    def batch(self, bundle: Bundle, now: int) -> Command:
        """Return the request for a batch. `now` is in ms since 1970."""
        body = bundle.body()
        flag = int.from_bytes(body[12:16], "big", signed=True)
        ext = self._header(bundle, BatchMessage(flag, b"", b""), BATCH_PROPERTIES, now, batch=True).to_ext()
        return signed(make_request(codes.SEND_BATCH_MESSAGE, 0, ext, body), self._options)

    def run(self, bundle: Bundle, marks: list[str], now: int, opaque: int) -> list[bytes]:
        """Encode the frames of a run. `marks` contains additional properties of each message, `now` is in ms since
        1970, and `opaque` is for the first request."""
        messages = bundle.messages()
        times = [now if born == NO_TIME else born for born in bundle.born()]
        if self._options.access_key:
            return [
                self._signed(bundle, each, extra, time, opaque + place)
                for place, (each, extra, time) in enumerate(zip(messages, marks, times, strict=True))
            ]
        header = self._header(bundle, messages[0], "", 0, batch=False).to_ext()
        for varying in ("g", "h", "i"):
            del header[varying]
        template = FrameTemplate(codes.SEND_MESSAGE_V2, header)
        frames = []
        for place, (each, extra, time) in enumerate(zip(messages, marks, times, strict=True)):
            properties = JSON_ENCODER.encode(each.properties.decode() + extra)
            fields = b'"g":"%d","h":"%d","i":%b' % (time, each.flag, properties)
            frames.append(template.frame(fields, opaque + place, each.body))
        return frames

    def _signed(self, bundle: Bundle, message: BatchMessage, marks: str, time: int, opaque: int) -> bytes:
        properties = message.properties.decode() + marks
        ext = self._header(bundle, message, properties, time, batch=False).to_ext()
        return encode(signed(make_request(codes.SEND_MESSAGE_V2, opaque, ext, message.body), self._options))

    def _header(
        self, bundle: Bundle, message: BatchMessage, properties: str, born: int, *, batch: bool
    ) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._options.group,
            topic=bundle.queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=bundle.queue.queue_id,
            sys_flag=TRANSACTION_PREPARED if self._half else 0,
            born_timestamp=born,
            flag=message.flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
            broker_name=bundle.queue.broker,
        )
