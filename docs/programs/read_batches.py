from bolide.client import Message
from bolide.client.blocking import Producer, PullConsumer


def main(namesrv: str = "") -> None:
    with Producer("meter", namesrv) as producer:
        producer.send_many([Message("Readings", b"%d" % number) for number in range(100)])
    read = 0
    with PullConsumer("archive", namesrv, start_from="first") as consumer:
        consumer.subscribe("Readings")
        for messages in consumer.batches(50):
            read += len(messages)  # store all of them here, in one transaction of your database
            if read == 100:
                break
    print(read, "read")


if __name__ == "__main__":
    main()
