"""What a Bolide broker costs as it grows: topics, offsets, bytes of the log, and what it costs while nothing happens.

    python bench/growth.py [--only topics,offsets,start,idle] [--topics 10000] [--gigabytes 3] [--python PATH ...]

One JSON object a line for each figure. With several `--python`, environments of different commits, they are measured
in turns. Processor times are the broker's, user and kernel.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.due import Beside, Figures, Peer, cpu_us, frame, send_all, send_frame
from bench.servers.servers import BolideBroker

from bolide.remoting import codes

_QUEUES = 8
_SENDS = 80_000
_IDLE_SECONDS = 10.0
_GROUPS = 47
_OFFSET_TOPICS = 997
_PAGE_SECONDS = 11.0
"""Long enough for two writes of the offsets, which come every 5 s."""
_BODY = 3_900


def _create(name: str) -> bytes:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": str(_QUEUES), "writeQueueNums": str(_QUEUES)}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    return frame(codes.UPDATE_AND_CREATE_TOPIC, fields)


def _in_turn(frames: list[bytes], index: int) -> bytes:
    return frames[index % len(frames)]


def _idle(pid: int) -> Figures:
    """Processor time, wake-ups of the loop and bytes written in a second, while nobody asks for anything."""
    time.sleep(2.0)

    def seen() -> tuple[float, int, int]:
        written = [line for line in Path(f"/proc/{pid}/io").read_text().splitlines() if line.startswith("write_bytes")]
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        switches = [line for line in status if line.startswith("voluntary_ctxt_switches")]
        return cpu_us(pid), int(written[0].split()[1]), int(switches[0].split()[1])

    before = seen()
    time.sleep(_IDLE_SECONDS)
    after = seen()
    return {
        "idle_cpu_percent": round((after[0] - before[0]) / _IDLE_SECONDS / 10_000, 3),
        "idle_written_bytes_s": round((after[1] - before[1]) / _IDLE_SECONDS, 0),
        "idle_wakeups_s": round((after[2] - before[2]) / _IDLE_SECONDS, 1),
    }


def topics(broker: BolideBroker, chosen: argparse.Namespace) -> Figures:
    """Make topics of eight queues, ask for all of them, send to their queues in turn, leave it alone."""
    count: int = chosen.topics
    names = [f"Topic{number:05d}" for number in range(count)]
    beside = Beside(broker.port)
    used, began = cpu_us(broker.pid), time.monotonic()
    send_all(broker.port, lambda index: _create(names[index]), count, 16)
    found: Figures = {"create_us": round((cpu_us(broker.pid) - used) / count, 1)}
    found["create_s"] = round(time.monotonic() - began, 2)
    found["create_beside_longest_ms"] = round(beside.stop()[1], 1)
    beside = Beside(broker.port)
    peer = Peer(broker.port)
    began = time.monotonic()
    for _ in range(5):
        peer.request(frame(codes.GET_ALL_TOPIC_CONFIG, {}))
    found["all_topics_ms"] = round((time.monotonic() - began) * 200, 1)
    found["all_topics_beside_longest_ms"] = round(beside.stop()[1], 1)
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true"}
    frames = [send_frame(name, queue, properties, b"g" * 128) for name in names for queue in range(_QUEUES)]
    for key, only in (("one_topic", frames[:_QUEUES]), ("first", frames), ("in_turn", frames), ("again", frames)):
        beside = Beside(broker.port)
        used, began = cpu_us(broker.pid), time.monotonic()
        send_all(broker.port, partial(_in_turn, only), _SENDS, 64)
        time.sleep(3.0)  # what waits is written by then
        found[f"send_{key}_us"] = round((cpu_us(broker.pid) - used) / _SENDS, 2)
        found[f"send_{key}_beside_longest_ms"] = round(beside.stop()[1], 1)
    found["open_files"] = len(os.listdir(f"/proc/{broker.pid}/fd"))
    peers = [Peer(broker.port) for _ in range(1_000)]
    time.sleep(chosen.settle)  # some queues are written each second; after a minute all of them
    found |= _idle(broker.pid)
    for other in [*peers, peer]:
        other.close()
    return found


def offsets(broker: BolideBroker, chosen: argparse.Namespace) -> Figures:
    """Commit 375,000 offsets and look at sends while they are written."""
    names = [f"Offset{number:05d}" for number in range(min(_OFFSET_TOPICS, chosen.topics))]
    send_all(broker.port, lambda index: _create(names[index]), len(names), 16)
    groups = [json.dumps({"groupName": f"group{group}"}).encode() for group in range(_GROUPS)]
    send_all(
        broker.port, lambda index: frame(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, groups[index]), _GROUPS, 16
    )
    data = [
        frame(
            codes.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": f"group{group}", "topic": name, "queueId": str(queue), "commitOffset": "0"},
        )
        for group in range(_GROUPS)
        for name in names
        for queue in range(_QUEUES)
    ]
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true"}
    for name in names:  # a queue must be before offsets of it are
        sends = [send_frame(name, queue, properties, b"o") for queue in range(_QUEUES)]
        send_all(broker.port, partial(_in_turn, sends), _QUEUES)
    used = cpu_us(broker.pid)
    send_all(broker.port, lambda index: data[index], len(data), 256)
    found: Figures = {"commit_us": round((cpu_us(broker.pid) - used) / len(data), 2)}
    for key in ("written", "few_changed"):
        beside = Beside(broker.port)
        used = cpu_us(broker.pid)
        time.sleep(_PAGE_SECONDS)
        found[f"{key}_cpu_ms"] = round((cpu_us(broker.pid) - used) / 1000, 1)
        p99, longest = beside.stop()
        found[f"{key}_beside_p99_ms"], found[f"{key}_beside_longest_ms"] = round(p99, 1), round(longest, 1)
        peer = Peer(broker.port)
        peer.request(data[0].replace(b'"commitOffset":"0"', b'"commitOffset":"1"'))
        peer.close()
    return found


def start(broker: BolideBroker, chosen: argparse.Namespace) -> Figures:
    """Fill a log, then stop and start: cleanly three times, after a kill twice."""
    count = int(chosen.gigabytes * 1e9 / (_BODY + 200))
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true"}
    data = [send_frame("Large", queue, properties, b"s" * _BODY) for queue in range(4)]
    send_all(broker.port, lambda index: data[index % 4], count, 128)
    found: Figures = {}
    home, python = broker.home, str(Path(f"/proc/{broker.pid}/cmdline").read_bytes().split(b"\0")[0], "utf-8")
    running = broker
    for number, how in enumerate(("stop", "stop", "stop", "kill", "kill")):
        began = time.monotonic()
        if how == "stop":
            running.stop()
        else:
            os.kill(running.pid, signal.SIGKILL)
            running.kill()
        stopped = time.monotonic()
        running = BolideBroker(home, "async", python=python)
        found[f"{how}{number}_s"] = round(stopped - began, 2)
        found[f"start{number}_after_{how}_s"] = round(time.monotonic() - stopped, 2)
        found[f"start{number}_cpu_ms"] = round(cpu_us(running.pid) / 1000, 0)
    running.kill()
    return found


def idle(broker: BolideBroker, chosen: argparse.Namespace) -> Figures:
    """An empty broker."""
    return _idle(broker.pid)


_MEASURES: dict[str, Callable[[BolideBroker, argparse.Namespace], Figures]] = {
    "topics": topics,
    "offsets": offsets,
    "start": start,
    "idle": idle,
}


def main() -> int:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(_MEASURES))
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--settle", type=float, default=75.0, help="seconds between the last send and the idle time")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--python", action="append", help="the environment of a Bolide; several are measured in turns")
    chosen = parser.parse_args()
    pythons = chosen.python or [sys.executable]
    for name in chosen.only.split(","):
        found: dict[str, list[Figures]] = {python: [] for python in pythons}
        for _ in range(chosen.rounds):
            for python in pythons:
                folder = Path(tempfile.mkdtemp(prefix="bolide-growth-"))
                broker = BolideBroker(folder, "async", python=python)
                try:
                    found[python].append(_MEASURES[name](broker, chosen))
                finally:
                    broker.kill()
                    shutil.rmtree(folder, ignore_errors=True)
        for python, rounds in found.items():
            medians = {key: round(statistics.median(figures[key] for figures in rounds), 3) for key in rounds[0]}
            print(json.dumps({"what": name, "python": python, **medians}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
