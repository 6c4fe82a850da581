"""The life of one store: boots, work, power cuts, kills and stops, all from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError
from proof.simulation.cuts.book import Book
from proof.simulation.cuts.check import Checks
from proof.simulation.cuts.history import GONE, KEPT, QUEUES, Clients
from proof.simulation.cuts.machine import ROOT, Machine
from proof.simulation.cuts.served import not_served
from proof.simulation.disk import Disk, PowerFails

START: Final = 1_800_000_000_000
CUTS_IN_A_LIFE: Final = 20
HOUR_MS: Final = 3_600_000
INDEX_SLOTS: Final = 13


@dataclass
class Result:
    """What a life showed."""

    cuts: int = 0
    in_recovery: int = 0
    """Of these, cuts while a boot was recovering."""
    kills: int = 0
    stops: int = 0
    messages: int = 0
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class Life:
    """One store from its first boot to its last stop."""

    def __init__(self, seed: str, cuts: int = CUTS_IN_A_LIFE) -> None:
        self.choice = choice = random.Random(seed)
        self.most = cuts
        self.sync = choice.random() < 0.7
        self.disk = disk = Disk(choice.randrange(1 << 30))
        disk.journaled_names = choice.random() < 0.5
        disk.sectors_at_once = choice.choice((1, 8))
        disk.unnamed = choice.random() < 0.5
        disk.make_dir("/machine")
        disk.sync_dir("/")
        self.now = START
        self.options = BrokerOptions.of(
            flush_disk_type="SYNC_FLUSH" if self.sync else "ASYNC_FLUSH",
            mapped_file_size_commit_log=choice.choice((4_096, 8_192, 65_536)),
            mapped_file_size_consume_queue=choice.choice((200, 400, 6_000)),
            mapped_file_size_timer_log=choice.choice((52 * 5 + 16, 52 * 40 + 16)),
            max_hash_slot_num=INDEX_SLOTS,
            max_index_num=choice.choice((20, 64, 400)),
            max_message_size=3_000,
            message_delay_level="1s 3s 10s",
            offset_moved_event_enable=False,
            enabled_append_prop_crc=choice.random() < 0.2,
            transaction_time_out=2_000,
            transaction_check_interval=3_000,
            file_reserved_time=1,
            delete_when="23",
            store_path_root_dir=ROOT,
        )
        self.book = Book()
        self.clients = Clients(self.book, choice)
        self.checks = Checks(disk, self.book, self.sync, INDEX_SLOTS)
        self.result = Result()
        self.killed = False
        """The last run ended by a kill: the kernel has everything that was written."""

    def trace(self) -> None:
        """Note every request and answer as well."""
        self.clients.note = self.note

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.result.trace.append(f"{self.now - START:>9} {self.disk.calls:>6} {text}")

    def run(self) -> Result:
        """Live until the last cut, or the first problem."""
        result = self.result
        self.note(
            f"{'sync' if self.sync else 'async'} flush, {'journaled' if self.disk.journaled_names else 'strict'} names,"
            f" sectors of {512 * self.disk.sectors_at_once},"
            f" log files of {self.options.shape.mapped_file_size_commit_log}"
        )
        try:
            while result.cuts < self.most and not result.problems:
                self._round()
            if not result.problems:
                self._end()
        except BolideError as error:
            result.problems.append(f"{type(error).__name__}: {error}")
        result.problems += self.clients.problems
        result.messages = len(self.book.sent)
        return result

    # -- boots --

    def _boot(self, interrupted: bool = True) -> Machine:
        """Boot until a boot is not cut off, and check."""
        choice = self.choice
        while True:
            if interrupted and choice.random() < 0.3:
                self.disk.cut_at = self.disk.calls + choice.randrange(12)
            machine = Machine(self.disk, self.options, self.now)
            try:
                machine.boot()
            except PowerFails:
                self.result.in_recovery += 1
                self._cut("in the boot")
                continue
            self.disk.cut_at = None
            break
        self.note("boot: " + machine.report.sentence())
        self.checks.expired = self.now - self.options.store.file_reserved_time * HOUR_MS
        self.result.problems += self.checks.after_recovery(self.killed)
        self.killed = False
        self.clients.connect(machine)
        return machine

    def _cut(self, where: str) -> None:
        seed = self.choice.choice((0, 1, self.choice.randrange(2, 1 << 30), self.choice.randrange(2, 1 << 30)))
        self.note(f"power cut {where}, kept by {seed}")
        self.checks.before_cut()
        self.killed = False
        self.disk.power_cut(seed)
        self.result.cuts += 1
        self._down()

    def _down(self) -> None:
        self.now += self.choice.choice((10, 1_000, 30_000))

    # -- work --

    def _round(self) -> None:
        choice = self.choice
        machine = self._boot()
        if self.result.problems:
            return
        how = choice.random()
        if how < 0.8:
            self.disk.cut_at = self.disk.calls + choice.randrange(1, choice.choice((8, 40, 120)))
        try:
            if choice.random() < 0.15:
                self._look(machine)
            for _ in range(choice.choice((5, 20, 60))):
                self._step(machine)
            if how < 0.2:
                self._stop(machine)
                return
            if choice.random() < 0.3:
                machine.pass_time(choice.choice((1_000, 5_000, 70_000)))
        except PowerFails as call:
            self.now = machine.now
            self._cut(f"at {call}")
            return
        self.now = machine.now
        if how > 0.95:
            self.note("kill")
            self.result.kills += 1
            self.killed = True
            self.disk.process_crash()
            self._down()
        else:
            self._cut("between two calls")

    def _step(self, machine: Machine) -> None:
        choice = self.choice
        chance = choice.random()
        if chance < 0.5:
            self.clients.one_thing()
        elif chance < 0.7:
            machine.turn()
        elif chance < 0.88:
            machine.work(choice)
        elif chance < 0.995:
            machine.tick(choice.choice((1, 20, 100, 500, 1_000, 5_000)))
        else:
            self.book.hours_passed = True
            machine.tick(2 * HOUR_MS)
        self.now = machine.now

    def _look(self, machine: Machine) -> None:
        """Pull some queue."""
        topic, queue_id = self.choice.choice(KEPT + GONE), self.choice.randrange(QUEUES)
        self.result.problems += not_served(self.clients, self.checks, topic, queue_id)

    def _stop(self, machine: Machine) -> None:
        machine.stop()
        self.now = machine.now
        self.note("stop")
        self.result.stops += 1
        self.disk.cut_at = None
        if self.choice.random() < 0.5:
            self._cut("after a clean stop")
        else:
            self.disk.process_crash()
            self._down()
        self.result.problems += self.checks.after_stop()

    def _end(self) -> None:
        """All that waits has its time; then everything must be where it belongs."""
        machine = self._boot(interrupted=False)
        for _ in range(2):
            machine.pass_time(16_000)
        self.now = machine.now
        if self.clients.unanswered:
            self.result.problems.append(f"{self.clients.unanswered} requests were not answered")
        for topic in KEPT + GONE:
            for queue_id in range(QUEUES):
                self.result.problems += not_served(self.clients, self.checks, topic, queue_id)
        machine.stop()
        self.note("last stop")
        self.disk.process_crash()
        self.result.problems += self.checks.after_stop() + self.checks.at_the_end()
