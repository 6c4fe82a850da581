"""Print the lag of each group, from a broker's /metrics."""

import sys
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families


def main(address: str) -> None:
    with urlopen(f"http://{address}/readyz") as answer:
        print("broker:", answer.read().decode().strip())
    with urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        if family.name == "rocketmq_consumer_lag_messages":
            for sample in family.samples:
                print(sample.labels["consumer_group"], sample.labels["topic"], int(sample.value))


if __name__ == "__main__":
    main(sys.argv[1])
