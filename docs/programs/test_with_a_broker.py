from bolide.client import Message
from bolide.client.blocking import Producer
from bolide.testing import Broker


def test_an_order_is_stored(bolide_broker: Broker) -> None:
    with Producer("orders", bolide_broker.namesrv_addr) as producer:
        assert producer.send(Message("Orders", b"one coffee")).queue_offset == 0
