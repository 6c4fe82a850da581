from bolide.client import Message
from bolide.client.blocking import Producer, PullConsumer

with Producer("orders") as producer:
    print(producer.send(Message("Orders", b"one coffee", tags="coffee")).status.name)
with PullConsumer("kitchen", start_from="first") as consumer:
    consumer.subscribe("Orders", "coffee || tea")
    for message in consumer.poll():
        print(message.tags, message.body)
