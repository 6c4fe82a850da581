"""What comes due, wakes or ends together: delay levels, timer messages, held pulls, transactions, of one Bolide broker.

    python bench/due.py [--only delay,timer,wake,transactions] [--count 200000] [--python PATH ...]

One JSON object a line for each figure. With several `--python`, environments of different commits, they are measured
in turns. Processor times are the broker's, user and kernel.
"""

import argparse
import json
import os
import select
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.servers.servers import BolideBroker

from bolide.remoting import codes
from proof.kit.wire import Wire, pull_ext, send_ext
from proof.reader.frames import Frame, frame, header

Figures = dict[str, float]
_DELAY_LEVEL = 3
_LEVEL_SECONDS = 10.0
_TIMER_SECONDS = 20.0
_LIMIT_SECONDS = 180.0
_HOLD_FLAGS = 2 | 4
"""Of a pull: hold it, and it carries a subscription."""


def send_frame(topic: str, queue: int, properties: dict[str, str], body: bytes, sys_flag: int = 0) -> bytes:
    """SEND_MESSAGE_V2."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    ext = send_ext(topic, a="due", e=str(queue), f=str(sys_flag), g=str(int(time.time() * 1000)), i=text)
    return frame(header(codes.SEND_MESSAGE_V2, ext), body)


class Peer(Wire):
    """A connection that counts or reads responses."""

    def answers(self) -> list[Frame]:
        """Wait for bytes, and return the responses that are complete."""
        arrived = self.receive()
        if arrived is None:
            raise SystemExit("the broker closed a connection")
        return arrived

    def request(self, data: bytes) -> Frame:
        """Send one frame and wait for its response, which must be a success."""
        self.socket.sendall(data)
        while True:
            for answer in self.answers():
                if answer.code not in (codes.SUCCESS, codes.PULL_NOT_FOUND):
                    raise SystemExit(f"the broker returned {answer}")
                return answer

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def cpu_us(pid: int) -> float:
    """Processor time of all threads of a process so far, in microseconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1000


def send_all(port: int, frames: Callable[[int], bytes], count: int, in_flight: int = 512) -> None:
    """Send `count` frames over one connection, `in_flight` at most without an answer."""
    peer = Peer(port)
    sent = answered = 0
    while answered < count:
        room = min(in_flight - (sent - answered), count - sent)
        if room >= in_flight // 2 or (room and sent + room == count):
            peer.socket.sendall(b"".join(frames(sent + i) for i in range(room)))
            sent += room
        for answer in peer.answers():
            if answer.code != codes.SUCCESS:
                raise SystemExit(f"the broker rejected a send: {answer}")
            answered += 1
    peer.close()


def stored(peer: Peer, topic: str, queues: int) -> int:
    """Messages of a topic so far."""
    total = 0
    for queue in range(queues):
        request = frame(header(codes.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)}))
        total += int(peer.request(request).ext["offset"])
    return total


class Beside:
    """Sends one message after the other while something else happens, and keeps the times (ms)."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        self._peer = Peer(port)
        self._data = send_frame("Beside", 0, {"UNIQ_KEY": "0" * 32, "WAIT": "true"}, b"b" * 128)
        self._on = True
        self._peer.request(self._data)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._on:
            began = time.monotonic()
            self._peer.request(self._data)
            self.times.append((time.monotonic() - began) * 1000)
            time.sleep(0.002)

    def stop(self) -> tuple[float, float]:
        """The 99th of a hundred, and the longest (ms)."""
        self._on = False
        self._thread.join()
        self._peer.close()
        ordered = sorted(self.times)
        return ordered[len(ordered) * 99 // 100], ordered[-1]


def _until_stored(broker: BolideBroker, topic: str, count: int, due_at: float) -> Figures:
    """Wait until all have come; times are counted from `due_at`, processor time from now."""
    began = time.monotonic()
    peer = Peer(broker.port)
    beside = Beside(broker.port)
    used = cpu_us(broker.pid)
    first = half = 0.0
    while True:
        found = stored(peer, topic, 4)
        now = time.monotonic() - due_at
        if found and not first:
            first = now
        if found >= count // 2 and not half:
            half = now
        if found >= count:
            break
        if time.monotonic() - began > _LIMIT_SECONDS:
            raise SystemExit(f"{found} of {count} messages had come after {_LIMIT_SECONDS} s")
        time.sleep(0.02)
    used = cpu_us(broker.pid) - used
    p99, longest = beside.stop()
    peer.close()
    return {
        "first_s": round(first, 2),
        "half_s": round(half, 2),
        "last_s": round(now, 2),
        "rate": round(count / (now - min(first, 0.0)), 0),
        "cpu_us": round(used / count, 2),
        "beside_p99_ms": round(p99, 1),
        "beside_longest_ms": round(longest, 1),
    }


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def delay(broker: BolideBroker, count: int) -> Figures:
    """Messages of one delay level, all due when the broker continues after a pause."""
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true", "DELAY": str(_DELAY_LEVEL)}
    data = [send_frame("Delayed", queue, properties, b"d" * 128) for queue in range(4)]
    began = time.monotonic()
    send_all(broker.port, lambda index: data[index % 4], count)
    sent = time.monotonic()
    if sent - began >= _LEVEL_SECONDS:
        raise SystemExit(f"{count} sends took {sent - began:.1f} s: the first were due before the last was sent")
    time.sleep(0.5)  # what was sent is dispatched
    with _stopped(broker.pid):
        time.sleep(sent + _LEVEL_SECONDS + 0.2 - time.monotonic())
    return _until_stored(broker, "Delayed", count, time.monotonic())


def timer(broker: BolideBroker, count: int) -> Figures:
    """Timer messages of one second; the broker runs all the time, as in the trial."""
    due = int(time.time()) + _TIMER_SECONDS
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true", "TIMER_DELIVER_MS": str(int(due * 1000))}
    data = [send_frame("Timed", queue, properties, b"t" * 128) for queue in range(4)]
    used = cpu_us(broker.pid)
    send_all(broker.port, lambda index: data[index % 4], count)
    if time.time() > due:
        raise SystemExit("the sends ended after the messages were due")
    time.sleep(max(due - 0.5 - time.time(), 0))
    taken = cpu_us(broker.pid) - used
    due_at = time.monotonic() + due - time.time()
    return {"send_cpu_us": round(taken / count, 2), **_until_stored(broker, "Timed", count, due_at)}


def wake(broker: BolideBroker, count: int) -> Figures:
    """`count` connections hold a pull each on one queue; one message wakes them all."""
    starter = Peer(broker.port)
    message = send_frame("Woken", 0, {"UNIQ_KEY": "0" * 32, "WAIT": "true"}, b"w" * 128)
    offset = int(starter.request(message).ext["queueOffset"]) + 1
    hold = pull_ext("Woken", 0, offset, consumerGroup="due", sysFlag=str(_HOLD_FLAGS), suspendTimeoutMillis="60000")
    peers = [Peer(broker.port) for _ in range(count)]
    for peer in peers:
        peer.socket.sendall(frame(header(codes.PULL_MESSAGE, hold)))
    time.sleep(1.0)
    poll = select.epoll()
    by_number = {peer.socket.fileno(): peer for peer in peers}
    for number in by_number:
        poll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
    used = cpu_us(broker.pid)
    began = time.monotonic()
    starter.socket.sendall(message)
    times: list[float] = []
    while len(times) < count:
        ready = poll.poll(20)
        if not ready:
            raise SystemExit(f"{len(times)} of {count} held pulls were answered")
        now = time.monotonic()
        times.extend([(now - began) * 1000] * len(ready))
    used = cpu_us(broker.pid) - used
    poll.close()
    for peer in [*peers, starter]:
        peer.close()
    return {
        "first_ms": round(times[0], 1),
        "half_ms": round(times[count // 2], 1),
        "last_ms": round(times[-1], 1),
        "cpu_ms": round(used / 1000, 1),
    }


def transactions(broker: BolideBroker, seconds: float) -> Figures:
    """Half message and commit, one after the other, on each of 16 connections."""
    properties = {"UNIQ_KEY": "0" * 32, "WAIT": "true", "TRAN_MSG": "true", "PGROUP": "due"}
    half = send_frame("Traded", 0, properties, b"h" * 128, sys_flag=4)
    peers = {peer.socket.fileno(): peer for peer in (Peer(broker.port) for _ in range(16))}
    poll = select.epoll()
    halves: dict[int, bool] = {}
    for number, peer in peers.items():
        poll.register(number, select.EPOLLIN)
        peer.socket.sendall(half)
        halves[number] = True
    used = cpu_us(broker.pid)
    began = time.monotonic()
    done = 0
    while time.monotonic() - began < seconds:
        for number, _ in poll.poll(1):
            peer = peers[number]
            for answer in peer.answers():
                if answer.code != codes.SUCCESS:
                    raise SystemExit(f"the broker returned {answer}")
                if not halves[number]:
                    done += 1
                    peer.socket.sendall(half)
                else:
                    peer.socket.sendall(_commit(answer))
                halves[number] = not halves[number]
    elapsed = time.monotonic() - began
    used = cpu_us(broker.pid) - used
    for peer in peers.values():
        peer.close()
    return {"rate": round(done / elapsed, 0), "cpu_us": round(used / done, 1)}


def _commit(answer: Frame) -> bytes:
    fields = answer.ext
    ends = {"producerGroup": "due", "tranStateTableOffset": fields["queueOffset"], "commitOrRollback": "8"}
    ends |= {"commitLogOffset": str(int(fields["msgId"][16:], 16)), "fromTransactionCheck": "false"}
    ends |= {"msgId": "0" * 32, "transactionId": fields.get("transactionId") or ""}
    return frame(header(codes.END_TRANSACTION, ends))


_MEASURES: dict[str, Callable[[BolideBroker, int], Figures]] = {
    "delay": delay,
    "timer": timer,
    "wake": lambda broker, count: wake(broker, min(count // 40, 5_000)),
    "transactions": lambda broker, count: transactions(broker, 4.0),
}


def main() -> int:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(_MEASURES))
    parser.add_argument("--count", type=int, default=200_000, help="messages that come due together")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--python", action="append", help="the environment of a Bolide; several are measured in turns")
    chosen = parser.parse_args()
    pythons = chosen.python or [sys.executable]
    for name in chosen.only.split(","):
        found: dict[str, list[Figures]] = {python: [] for python in pythons}
        for _ in range(chosen.rounds):
            for python in pythons:
                folder = Path(tempfile.mkdtemp(prefix="bolide-due-"))
                broker = BolideBroker(folder, "async", python=python)
                try:
                    found[python].append(_MEASURES[name](broker, chosen.count))
                finally:
                    broker.kill()
                    shutil.rmtree(folder, ignore_errors=True)
        for python, rounds in found.items():
            medians = {key: round(statistics.median(figures[key] for figures in rounds), 2) for key in rounds[0]}
            print(json.dumps({"what": name, "python": python, **medians}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
