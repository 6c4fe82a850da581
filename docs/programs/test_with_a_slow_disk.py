import pytest

from bolide.client import Message, RequestTimeout, SendFailed
from bolide.client.blocking import Producer
from bolide.testing import Broker


@pytest.mark.bolide_broker(flush_disk_type="SYNC_FLUSH", send_thread_pool_queue_capacity=1)
def test_send_fails_while_the_broker_is_busy(bolide_broker: Broker) -> None:
    with Producer("orders", bolide_broker.namesrv_addr) as producer:
        order = Message("Orders", b"one coffee")
        producer.send(order)
        with bolide_broker.stalled_disk():
            with pytest.raises(RequestTimeout):  # the send waits for the disk: the message may be stored
                producer.send(order, timeout=0.5)
            with pytest.raises(SendFailed, match="busy, start flow control"):  # rejected: the message is not stored
                producer.send(order)
        producer.send(order)
